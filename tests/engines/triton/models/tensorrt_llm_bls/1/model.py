"""The TensorRT-LLM backend's interface with known tokens."""

import os
import sys

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.insert(0, os.environ["KNOWN_TOKENS"])

from known_tokens import FINAL, KnownTokens, read_input


class TritonPythonModel(KnownTokens):
    async def serve(self, request):
        sender = request.get_response_sender()
        try:
            await self.generate(request, sender)
            sender.send(flags=FINAL)
        except Exception as error:
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))), flags=FINAL)

    async def generate(self, request, sender):
        count = int(read_input(request, "max_tokens"))
        stream = bool(read_input(request, "stream", False))
        texts = []
        async for index, text in self.timing.tokens(count):
            if sender.is_cancelled():
                pb_utils.Logger.log_info(f"cancelled after {index} tokens")
                return
            texts.append(text)
            if stream:
                sender.send(self.response(request, text, 1))
        if not stream:
            sender.send(self.response(request, "".join(texts), count))

    def response(self, request, text, output_tokens):
        tensors = [pb_utils.Tensor("text_output", np.asarray([text.encode()], dtype=np.object_))]
        if read_input(request, "return_num_output_tokens", False):
            tensors.append(pb_utils.Tensor("num_output_tokens", np.asarray([[output_tokens]], dtype=np.int32)))
        if read_input(request, "return_num_input_tokens", False):
            words = len(read_input(request, "text_input").decode().split())
            tensors.append(pb_utils.Tensor("num_input_tokens", np.asarray([[words]], dtype=np.int32)))
        return pb_utils.InferenceResponse(output_tensors=tensors)
