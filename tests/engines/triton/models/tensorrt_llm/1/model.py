"""Middle step of the ensemble: token ids at known times, several responses to a request."""

import os
import sys

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.insert(0, os.environ["KNOWN_TOKENS"])

from known_tokens import FINAL, KnownTokens, read_input


class TritonPythonModel(KnownTokens):
    async def serve(self, request):
        sender = request.get_response_sender()
        count = int(read_input(request, "request_output_len"))
        stream = bool(read_input(request, "streaming", False))
        ids = []
        async for index, _ in self.timing.tokens(count):
            if sender.is_cancelled():
                sender.send(flags=FINAL)
                return
            ids.append(index)
            last = index == count - 1
            if stream or last:
                sender.send(response([index] if stream else ids), flags=FINAL if last else 0)


def response(ids):
    tokens = np.asarray(ids, dtype=np.int32).reshape(1, 1, -1)
    count = np.asarray([[len(ids)]], dtype=np.int32)
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor("output_ids", tokens), pb_utils.Tensor("sequence_length", count)]
    )
