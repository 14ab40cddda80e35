"""The decoder of the GPU variant, as a DALI pipeline. Not run here: it needs a GPU and DALI.

In an image with the DALI of your Triton, where OUT is what export.py wrote:

    python pipeline.py OUT/decode/1/model.dali

The file goes where model.py lay; config.pbtxt is the one in the folder `decode` beside this.
"""

import sys

from nvidia.dali import fn, pipeline_def, types

SIDE = 64
#: Of the pixels' 0 to 255, where repository/decode has 0 to 1.
MEAN = [255 * it for it in (0.485, 0.456, 0.406)]
DEVIATION = [255 * it for it in (0.229, 0.224, 0.225)]


# As many images as the config's max_batch_size.
@pipeline_def(batch_size=16, num_threads=4, device_id=0)
def decoder(device="mixed"):  # type: ignore[no-untyped-def]
    """Encoded images in, normalized pixels out, on the GPU if the device is mixed.

    The source's name is that of the config's input. With decoder(device="cpu", device_id=None) all
    of it runs on a CPU, to be looked at.
    """
    encoded = fn.external_source(device="cpu", name="encoded")
    # mixed: read by the CPU, decoded by the GPU, where the pixels stay until the network has them
    images = fn.decoders.image(encoded, device=device, output_type=types.RGB)
    small = fn.resize(
        images, resize_x=SIDE, resize_y=SIDE, interp_type=types.INTERP_LINEAR, antialias=True
    )
    return fn.crop_mirror_normalize(
        small, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=DEVIATION
    )


if __name__ == "__main__":
    decoder().serialize(filename=sys.argv[1])
