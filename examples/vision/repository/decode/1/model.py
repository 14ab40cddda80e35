"""The step before the network: encoded images in, normalized pixels out.

Needs Pillow in the models' Python. Images of one request may differ in size: Triton wants them as
rows of one length, so the shorter ones are padded with zeros, which both decoders pass over.
"""

import io

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image, UnidentifiedImageError

SIDE = 64
#: ImageNet's means and deviations of red, green and blue, for pixels of 0 to 1.
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
#: What a caller may make this process hold, 100 MB. Pillow's own limit is ten times that.
MOST_PIXELS = 4096 * 4096


class TritonPythonModel:
    """Each request is answered by itself."""

    def execute(self, requests):
        """A request with one image that cannot be read is an error, and its neighbours are not."""
        return [self.answer(request) for request in requests]

    def answer(self, request):
        rows = pb_utils.get_input_tensor_by_name(request, "encoded").as_numpy()
        try:
            pixels = np.stack([decode(row.tobytes()) for row in rows])
        except UnidentifiedImageError:  # its own words have an address of this process in them
            return refusal("found neither JPEG nor PNG")
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            return refusal(f"found a damaged or too large image ({error})")
        return pb_utils.InferenceResponse([pb_utils.Tensor("pixels", pixels)])


def refusal(found):
    """The caller's fault: a 400, where Triton's Python backend knows codes (2.40 and up)."""
    code = getattr(pb_utils.TritonError, "INVALID_ARG", None)
    words = f"the tensor `image`: {found}, expected a file of JPEG or PNG in each row"
    error = pb_utils.TritonError(words) if code is None else pb_utils.TritonError(words, code)
    return pb_utils.InferenceResponse(error=error)


def decode(encoded):
    """One image as (3, SIDE, SIDE) float32."""
    with Image.open(io.BytesIO(encoded), formats=("JPEG", "PNG")) as image:
        if image.width * image.height > MOST_PIXELS:
            raise ValueError(f"{image.width} by {image.height} pixels, at most {MOST_PIXELS}")
        small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    colours = np.asarray(small, np.float32) / np.float32(255)
    return ((colours - MEAN) / DEVIATION).transpose(2, 0, 1)
