"""Finds what is nearest to the vectors of a request in a FAISS index, as Merlin's QueryFaiss does.

Generated beside the models of an archive. Needs numpy and faiss. The index lies beside this file;
where its kind allows it is read in place, so that copies of one file share their memory. An
instance on a GPU (KIND_GPU) searches there, unless that has no room, or not for that kind of index.
"""

import json
import os

import numpy as np
import triton_python_backend_utils as pb_utils

FOLDER = os.path.dirname(os.path.abspath(__file__))
#: FAISS says where in its own code an error is; the reason stands behind this.
REASON = "failed: "
#: A graph of vectors is searched with smaller numbers: comparing others, or NaN, has no end.
TOO_LARGE = 1e18
#: An answer's ids are held in memory several times, also as JSON, in tritonserver, too.
MOST_FOUND = 1_000_000
#: Bytes of a GPU that searches share. FAISS's own default is 1.5 GB for each process; a search that
#: needs more than it has asks CUDA for the rest.
TEMPORARY = 64 * 1024 * 1024
#: Of the id that stands beside each vector of a list.
ID_BYTES = 8


class TritonPythonModel:
    """One answer for each request: the column that WRITES names."""

    def initialize(self, args):
        self.index, self.is_graph = read_index(SETTINGS["index"], gpu_of(args))
        check_width(self.index, json.loads(args["model_config"]))

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        (column,), (written,) = READS, WRITES
        vectors = tensors[READS[column][0]]
        if vectors.ndim != 2 or vectors.shape[1] != self.index.d:
            return pb_utils.InferenceResponse(
                error=callers_fault(
                    f"{OPERATOR}: the shape of column {column!r} is {list(vectors.shape)}, and the "
                    f"index has vectors of {self.index.d} numbers; expected [rows, {self.index.d}]"
                )
            )
        if len(vectors) * SETTINGS["topk"] > MOST_FOUND:
            return pb_utils.InferenceResponse(
                error=callers_fault(
                    f"{OPERATOR}: column {column!r} has {len(vectors)} vectors, for each of which "
                    f"{SETTINGS['topk']} ids are found; {MOST_FOUND} ids are found for a request"
                )
            )
        if self.is_graph and not np.all(np.abs(vectors) < TOO_LARGE):
            return pb_utils.InferenceResponse(
                error=callers_fault(
                    f"{OPERATOR}: column {column!r} has NaN, or numbers of {TOO_LARGE:g} and more; "
                    "an HNSW index is searched with smaller numbers alone"
                )
            )
        _, rows = self.index.search(np.ascontiguousarray(vectors, "float32"), SETTINGS["topk"])
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(written, rows.astype("int32").reshape(-1))]
        )


def check_width(index, config):
    """Raises ValueError where what the model before it puts out cannot be searched with."""
    ((column, *_),) = READS.values()
    (dims,) = (it["dims"] for it in config["input"] if it["name"] == column)
    width = int(dims[-1])
    if len(dims) > 1 and width not in (-1, index.d):
        raise ValueError(
            f"{OPERATOR}: the vectors of column {column!r} have {width} numbers, and those of the "
            f"index {SETTINGS['index']} have {index.d}; make the index of that model's vectors"
        )


def gpu_of(args):
    """The number of the GPU that this instance is on; None for the CPU."""
    on_gpu = args["model_instance_kind"].replace("KIND_", "") == "GPU"
    return int(args["model_instance_device_id"]) if on_gpu else None


def read_index(name, gpu):
    """The index, and whether a graph is in it; raises ValueError where there is none to be had."""
    if SETTINGS["topk"] > MOST_FOUND:
        raise ValueError(
            f"{OPERATOR}: topk is {SETTINGS['topk']}, and up to {MOST_FOUND} are found for a "
            "vector; export it again with fewer"
        )
    try:
        import faiss
    except ImportError as error:
        raise ValueError(
            f"{OPERATOR} needs FAISS ({error}): install faiss-cpu into the Python that runs "
            "models (SERVE_BACKEND_PYTHON)"
        ) from error
    gpus = getattr(faiss, "get_num_gpus", int)  # a build for CPUs may not have it
    on_gpu = gpu is not None and gpu < gpus()
    try:
        flags = 0 if on_gpu else faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY
        index = faiss.read_index(os.path.join(FOLDER, name), flags)
        lists = mapped_lists(faiss, index)
        if lists and lists.filename and flags:  # which these flags leave out, without a word
            index = faiss.read_index(os.path.join(FOLDER, name))
            lists = mapped_lists(faiss, index)
        check_length(lists)
        is_graph = has_graph(faiss, index)
    except RuntimeError as error:
        raise ValueError(
            f"{OPERATOR}: the index {name} cannot be read ({reason_of(error)}); export it again"
        ) from error
    if not on_gpu:
        return index, is_graph
    try:
        resources = faiss.StandardGpuResources()
        resources.setTempMemory(TEMPORARY)
        return faiss.index_cpu_to_gpu(resources, gpu, index), is_graph
    except RuntimeError as error:
        message = f"{OPERATOR}: the index {name} is searched on the CPU ({reason_of(error)})"
        print(message, flush=True)
        return index, is_graph


def mapped_lists(faiss, index):
    """Its lists that are read in place, of its own file or of another one; None for others."""
    inverted = faiss.try_extract_index_ivf(index)
    lists = inverted and faiss.downcast_InvertedLists(inverted.invlists)
    return lists if isinstance(lists, faiss.OnDiskInvertedLists) else None


def check_length(lists):
    """Raises RuntimeError where they end behind the end of their file.

    FAISS maps what there is; the first search in the rest would end the process.
    """
    if lists is None:
        return
    size = lists.code_size + ID_BYTES
    blocks = (lists.lists.at(number) for number in range(lists.nlist))
    end = max((block.offset + block.size * size for block in blocks), default=0)
    length = os.path.getsize(lists.filename) if lists.filename else lists.totsize
    if end > length:
        raise RuntimeError(f"it has {length} bytes, and its lists end at byte {end}")


def has_graph(faiss, index):
    """Whether it, or one that it is made of, is an HNSW: its search ends by comparing distances."""
    whole = faiss.downcast_index(index)
    parts = (getattr(whole, name, None) for name in ("index", "base_index", "quantizer"))
    return isinstance(whole, faiss.IndexHNSW) or any(has_graph(faiss, it) for it in parts if it)


def reason_of(error):
    """FAISS's message without file and line of its code."""
    return str(error).rpartition(REASON)[2].strip()


def callers_fault(message):
    """Triton's error for it: 400. Triton 2.36 has no codes and answers 400 to all of them."""
    code = getattr(pb_utils.TritonError, "INVALID_ARG", None)
    return pb_utils.TritonError(message, *([] if code is None else [code]))


# --- what this model does

KIND = ""
OPERATOR = ""
READS = {}
WRITES = {}
SETTINGS = {}
