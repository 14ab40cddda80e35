"""Runs a model of the archive as if it lay in its archive.

Generated. The delivered file has this one's name and lies in a copy of the archive's layout, which
is made of links. It runs in this module. tritonserver serves models of many archives
in one directory, under names that tell them apart, so this file hands the model the paths of its
own archive, and maps the names of the models that it calls.
"""


def _run_delivered(layout, model_directory, archive, names):
    """Run the delivered file.

    layout: a link to the copy, seen from this file. model_directory: the model's, in the copy.
    archive: the directory as it was delivered, into which no bytecode is written. names: the models
    that can be called, and their names in tritonserver.
    """
    import json
    import os
    import sys
    from importlib.machinery import SourceFileLoader
    from importlib.util import spec_from_file_location
    from inspect import getattr_static

    # pb_utils has its classes and functions from this module, once this file was imported.
    import c_python_backend_utils as triton
    import triton_python_backend_utils as pb_utils

    own_name = os.path.basename(model_directory)
    # A stub's Python may take paths for ASCII, whatever the container's does.
    layout, model_directory, archive = (
        os.fsdecode(path.encode("utf-8", "surrogateescape"))
        for path in (layout, model_directory, archive)
    )
    published, file_name = os.path.split(os.path.abspath(__file__))
    copy = os.path.realpath(os.path.join(published, layout))
    directory = os.path.normpath(os.path.join(copy, model_directory))
    version = os.path.join(directory, os.path.basename(published))
    moved = {published: version, os.path.dirname(published): directory}

    def plain(name):
        """The name as Triton reads it: a string's own letters, whatever its class makes of them."""
        if isinstance(name, str):
            return str.__str__(name)
        if isinstance(name, (bytes, bytearray)):
            return memoryview(name).tobytes().decode(errors="backslashreplace")
        raise TypeError(f"model_name: found {type(name).__name__}, expected str or bytes")

    def find(name):
        """The name that tritonserver knows, None for a stranger's; it may be said itself."""
        name = plain(name)
        return names.get(name) or (name if name in names.values() else None)

    def describe(name):
        """Of a stranger; no model is served under a name with a space in it."""
        return (
            f"{plain(name)[:80]!r} (not served with this model, which can call "
            f"{', '.join(map(repr, list(names)[:20]))}; its directory belongs in the archive, and "
            "its name in this model's parameters)"
        )

    def mapped(arguments, named, place, served_as):
        """The arguments of a call; the model's name is at this place, or is named."""
        if "model_name" in named:
            named = {**named, "model_name": served_as(named["model_name"])}
        if len(arguments) > place:
            before, name, after = arguments[:place], arguments[place], arguments[place + 1 :]
            arguments = (*before, served_as(name), *after)
        return arguments, named

    def with_name(control):
        """load_model, unload_model: the model's name is their first argument."""

        def served_as(name):
            if find(name) is None:
                raise triton.TritonModelException(f"there is no model {describe(name)}")
            return find(name)

        def with_name(*arguments, **named):
            arguments, named = mapped(arguments, named, 0, served_as)
            return control(*arguments, **named)

        return with_name

    def or_not_ready(is_model_ready):
        ask = with_name(is_model_ready)

        def is_ready(*arguments, **named):
            try:
                return ask(*arguments, **named)
            except triton.TritonModelException:
                return False

        return is_ready

    def map_requests(request_class):
        """In the class itself: those that come in are of it, and models derive from it."""
        make = request_class.__init__

        def served_as(name):
            """A request to a stranger fails when it is sent, as it does without this file."""
            return find(name) or describe(name)

        def __init__(self, *arguments, **named):
            # Before it stand request_id, correlation_id, inputs and requested_output_names.
            arguments, named = mapped(arguments, named, 4, served_as)
            make(self, *arguments, **named)

        request_class.__init__ = __init__

    def map_names():
        map_requests(triton.InferenceRequest)
        for name, replace in {
            "load_model": with_name,
            "unload_model": with_name,
            "is_model_ready": or_not_ready,
        }.items():
            if hasattr(triton, name):
                setattr(triton, name, replace(getattr(triton, name)))

    def keep_bytecode_out():
        write = SourceFileLoader.set_data

        def set_data(self, path, data, **named):
            if not os.path.realpath(path).startswith(os.path.join(archive, "")):
                write(self, path, data, **named)

        SourceFileLoader.set_data = set_data

    def run(path, module):
        with open(path, "rb") as file:
            exec(compile(file.read(), path, "exec", dont_inherit=True), module)

    def move_paths():
        """Modules beside the file are imported from the archive's layout."""
        sys.path[:] = [moved.get(entry, entry) for entry in sys.path]
        globals()["__file__"] = os.path.join(version, file_name)
        package = sys.modules.get(globals().get("__package__") or "")
        if package is not None:
            package.__path__ = [version]
            init = os.path.join(version, "__init__.py")
            if os.path.exists(init):
                spec = spec_from_file_location(
                    package.__name__, init, submodule_search_locations=[version]
                )
                package.__spec__, package.__loader__, package.__file__ = spec, spec.loader, init
                spec.loader.exec_module(package)

    def as_in_archive(args):
        """Triton's rule is that a model is called like its directory, and models build on it."""
        own = {**args, "model_repository": directory, "model_name": own_name}
        if "model_config" in args:
            config = {**json.loads(args["model_config"]), "name": own_name}
            own["model_config"] = json.dumps(config)
        return own

    def hand_over_paths(model):
        """What tritonserver says of the model's place is said as its archive has it."""
        make, initialize = model.__init__, getattr_static(model, "initialize", None)
        bind = getattr(type(initialize), "__get__", lambda function, *_: function)
        complete = getattr(model, "auto_complete_config", None)

        def tell_directory():
            """tritonserver puts its own in once this file was imported."""
            pb_utils.get_model_dir = lambda: version

        def __init__(self, *arguments, **named):
            tell_directory()
            make(self, *arguments, **named)

        def auto_complete_config(config):
            tell_directory()
            return complete(config)

        def initialize_there(self, args):
            return bind(initialize, self, type(self))(as_in_archive(args))

        model.__init__ = __init__
        if initialize is not None:
            model.initialize = initialize_there
        if complete is not None:
            model.auto_complete_config = staticmethod(auto_complete_config)

    if not hasattr(triton, "_delivered"):  # another import of the file finds it done
        triton._delivered = True
        map_names()
        keep_bytecode_out()
    move_paths()
    run(__file__, globals())
    model = globals().get("TritonPythonModel")
    if isinstance(model, type):  # else tritonserver says what is wrong
        hand_over_paths(model)


# --- what this model does
