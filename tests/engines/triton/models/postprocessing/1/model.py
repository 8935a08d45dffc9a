"""Last step of the ensemble: token ids to text."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        ids = pb_utils.get_input_tensor_by_name(request, "TOKENS_BATCH").as_numpy().reshape(-1)
        text = "".join(f" tok{index}" for index in ids)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.asarray([[text.encode()]], dtype=np.object_))])
