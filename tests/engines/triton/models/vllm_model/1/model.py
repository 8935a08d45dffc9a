"""The vLLM backend's interface with known tokens; sampling parameter `fail_after` breaks an answer off."""

import json
import os
import sys

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.insert(0, os.environ["KNOWN_TOKENS"])

from known_tokens import FINAL, KnownTokens, read_input

CONTEXT_TOKENS = 2048


class TritonPythonModel(KnownTokens):
    async def serve(self, request):
        sender = request.get_response_sender()
        try:
            await self.generate(request, sender)
        except Exception as error:  # the real backend answers so as well: N/A beside the error
            text = pb_utils.Tensor("text_output", np.asarray([b"N/A"], dtype=np.object_))
            told = pb_utils.TritonError(f"Error generating stream: {error}")
            sender.send(pb_utils.InferenceResponse(output_tensors=[text], error=told), flags=FINAL)

    async def generate(self, request, sender):
        prompt = read_input(request, "text_input").decode()
        stream = bool(read_input(request, "stream", False))
        sampling = json.loads(read_input(request, "sampling_parameters", b"{}").decode())
        count = int(sampling.get("max_tokens", 16))
        input_tokens = len(prompt.split())
        if input_tokens + count > CONTEXT_TOKENS:
            raise ValueError(f"prompt ({input_tokens}) + max_tokens ({count}) exceeds context {CONTEXT_TOKENS}")
        texts = []
        async for index, text in self.timing.tokens(count):
            if sender.is_cancelled():
                pb_utils.Logger.log_info(f"cancelled after {index} tokens")
                told = pb_utils.TritonError("Request was cancelled", pb_utils.TritonError.CANCELLED)
                sender.send(pb_utils.InferenceResponse(error=told), flags=FINAL)
                return
            if index == sampling.get("fail_after"):
                raise RuntimeError(f"out of memory after {index} tokens")
            last = index == count - 1
            texts.append(text)
            if stream:
                reason = "length" if last else None
                sender.send(self.response(request, text, input_tokens, 1, reason), flags=FINAL if last else 0)
        if not stream:
            begin = "" if read_input(request, "exclude_input_in_output", False) else prompt
            whole = self.response(request, begin + "".join(texts), input_tokens, count, "length")
            sender.send(whole, flags=FINAL)

    def response(self, request, text, input_tokens, output_tokens, reason):
        tensors = [pb_utils.Tensor("text_output", np.asarray([text.encode()], dtype=np.object_))]
        for name, value, kind in (
            ("finish_reason", str(reason), np.object_),
            ("num_input_tokens", input_tokens, np.uint32),
            ("num_output_tokens", output_tokens, np.uint32),
        ):
            if read_input(request, f"return_{name}", False):
                tensors.append(pb_utils.Tensor(name, np.asarray([value], dtype=kind)))
        return pb_utils.InferenceResponse(output_tensors=tensors)
