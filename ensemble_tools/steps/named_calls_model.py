"""Calls other models of its archive by the names that they have there.

Generated. The model itself is the file that the last line names, beside this one: it runs in this
module, as it was delivered. tritonserver serves models of many archives under names that tell them
apart; whenever this model names one that it calls, the list at the end says which is meant.
"""


def _run_delivered(file_name, names):
    """Run the file; names are mapped from the making of its TritonPythonModel on.

    Before that, pb_utils has no InferenceRequest.
    """
    import os
    import sys

    import triton_python_backend_utils as pb_utils

    path = os.path.join(os.path.dirname(__file__), file_name)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    globals()["__file__"] = path
    exec(code, globals())

    def served_as(name):
        """The name that tritonserver knows; for such a name of the archive's, itself."""
        if not isinstance(name, str):
            return name
        if name in names:
            return names[name]
        if name in names.values():
            return name
        raise pb_utils.TritonModelException(
            f"the model calls {name[:80]!r}, which is not served with it: it can call "
            f"{', '.join(map(repr, list(names)[:20]))}; the directory of a called model belongs "
            "into the archive, and its name into the caller's files or parameters as a whole string"
        )

    def mapped(arguments, named, place):
        """The arguments of a call, and in them the model's name as tritonserver knows it."""
        if "model_name" in named:
            named = {**named, "model_name": served_as(named["model_name"])}
        elif len(arguments) > place:
            before, name, after = arguments[:place], arguments[place], arguments[place + 1 :]
            arguments = (*before, served_as(name), *after)
        return arguments, named

    def with_names(control):
        """load_model, unload_model: the model's name is their first argument."""

        def with_name(*arguments, **named):
            arguments, named = mapped(arguments, named, 0)
            return control(*arguments, **named)

        return with_name

    def or_not_ready(is_model_ready):
        def is_ready(*arguments, **named):
            try:
                arguments, named = mapped(arguments, named, 0)
            except pb_utils.TritonModelException:
                return False
            return is_model_ready(*arguments, **named)

        return is_ready

    def request_class(real):
        class OfEither(type(real)):
            """Requests that come in are instances as well: they are of the real class."""

            def __instancecheck__(cls, instance):
                wanted = real if cls is InferenceRequest else cls
                return type.__instancecheck__(wanted, instance)

        class InferenceRequest(real, metaclass=OfEither):
            def __init__(self, *arguments, **named):
                # Before it stand request_id, correlation_id, inputs and requested_output_names.
                arguments, named = mapped(arguments, named, 4)
                super().__init__(*arguments, **named)

        return InferenceRequest

    def map_names():
        if "map_names" in vars(pb_utils):
            return
        pb_utils.map_names = map_names
        replaced = {
            "InferenceRequest": request_class,
            "load_model": with_names,
            "unload_model": with_names,
            "is_model_ready": or_not_ready,
        }
        # pb_utils has them from this module of the stub's, where some models take them. A model
        # that is bent on it still gets at what is replaced: this keeps the well-meant apart.
        origin = sys.modules.get("c_python_backend_utils")
        for name, replace in replaced.items():
            if hasattr(pb_utils, name):
                mapping = replace(getattr(pb_utils, name))
                setattr(pb_utils, name, mapping)
                if hasattr(origin, name):
                    setattr(origin, name, mapping)

    model = globals().get("TritonPythonModel")
    if model is None:
        return  # tritonserver says so
    make = model.__init__

    def __init__(self, *arguments, **named):
        map_names()
        make(self, *arguments, **named)

    model.__init__ = __init__


# --- what this model does
