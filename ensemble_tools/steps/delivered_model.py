"""Runs a model of the archive as if it lay in its archive.

Generated. The delivered file has this one's name and lies in a copy of the archive's layout, which
is made of links. It runs in this module. tritonserver serves models of many archives
in one directory, under names that tell them apart, so this file hands the model the paths of its
own archive, and maps the names of the models that it calls.
"""


class _Delivered:
    """The delivered file. It may define any name of this module, and put any module in the way of
    one: what is needed after it has run is imported before, and is an attribute.

    layout: a link to the copy, seen from this file. model_directory: the model's, in the copy.
    archive: the directory as it was delivered, into which no bytecode is written. names: the models
    that can be called, and their names in tritonserver.
    """

    def __init__(self, layout, model_directory, archive, names):
        import json
        import os
        from inspect import getattr_static

        # pb_utils has its classes and functions from this module, once this file was imported.
        import c_python_backend_utils as triton
        import triton_python_backend_utils as pb_utils

        self.triton, self.pb_utils, self.names = triton, pb_utils, names
        self.json, self.getattr_static = json, getattr_static
        self.own_name = os.path.basename(model_directory)
        # A stub's Python may take paths for ASCII, whatever the container's does.
        layout, model_directory, self.archive = (
            os.fsdecode(path.encode("utf-8", "surrogateescape"))
            for path in (layout, model_directory, archive)
        )
        self.published, self.file_name = os.path.split(os.path.abspath(__file__))
        copy = os.path.realpath(os.path.join(self.published, layout))
        self.directory = os.path.normpath(os.path.join(copy, model_directory))
        self.version = os.path.join(self.directory, os.path.basename(self.published))

    def run(self):
        if not hasattr(self.triton, "_delivered"):  # another import of the file finds it done
            self.triton._delivered = True
            self.map_requests()
            self.map_controls()
            self.keep_bytecode_out()
        self.move_import_path()
        self.move_package()
        self.execute(__file__, globals())
        model = globals().get("TritonPythonModel")
        if isinstance(model, type):  # else tritonserver says what is wrong
            self.tell_directory_to(model)
            self.tell_arguments_to(model)

    # --- names of models

    def read_name(self, name):
        """The name as Triton reads it: a string's own letters, whatever its class makes of them."""
        if isinstance(name, str):
            return str.__str__(name)
        if isinstance(name, (bytes, bytearray)):
            return memoryview(name).tobytes().decode(errors="backslashreplace")
        raise TypeError(f"model_name: found {type(name).__name__}, expected str or bytes")

    def find(self, name):
        """The name that tritonserver knows, None for a stranger's; it may be said itself."""
        name = self.read_name(name)
        return self.names.get(name) or (name if name in self.names.values() else None)

    def describe(self, name):
        """The name of an unknown model, as told; none is served under a name with a space in it."""
        return (
            f"{self.read_name(name)[:80]!r} (not served with this model, which can call "
            f"{', '.join(map(repr, list(self.names)[:20]))}; its directory belongs in the archive, "
            "and its name in this model's parameters)"
        )

    def replace_name(self, arguments, named, index, replace):
        """The arguments of a call; the model's name is the one with this index, or is named."""
        if "model_name" in named:
            named = {**named, "model_name": replace(named["model_name"])}
        if len(arguments) > index:
            before, name, after = arguments[:index], arguments[index], arguments[index + 1 :]
            arguments = (*before, replace(name), *after)
        return arguments, named

    def map_requests(self):
        """In the class itself: those that come in are of it, and models derive from it."""
        request_class = self.triton.InferenceRequest
        make = request_class.__init__

        def replace(name):
            """A request to a stranger fails when it is sent, as it does without this file."""
            return self.find(name) or self.describe(name)

        def __init__(request, *arguments, **named):
            # Before it stand request_id, correlation_id, inputs and requested_output_names.
            arguments, named = self.replace_name(arguments, named, 4, replace)
            make(request, *arguments, **named)

        request_class.__init__ = __init__

    def map_controls(self):
        """The functions whose first argument is the name of a model."""
        for name, wrap in {
            "load_model": self.map_control,
            "unload_model": self.map_control,
            "is_model_ready": self.map_is_ready,
        }.items():
            if hasattr(self.triton, name):
                setattr(self.triton, name, wrap(getattr(self.triton, name)))

    def map_control(self, control):
        def replace(name):
            if self.find(name) is None:
                message = f"there is no model {self.describe(name)}"
                raise self.triton.TritonModelException(message)
            return self.find(name)

        def call(*arguments, **named):
            arguments, named = self.replace_name(arguments, named, 0, replace)
            return control(*arguments, **named)

        return call

    def map_is_ready(self, is_model_ready):
        ask = self.map_control(is_model_ready)

        def is_ready(*arguments, **named):
            try:
                return ask(*arguments, **named)
            except self.triton.TritonModelException:
                return False

        return is_ready

    # --- paths

    def keep_bytecode_out(self):
        import os
        from importlib.machinery import SourceFileLoader

        archive, write = os.path.join(self.archive, ""), SourceFileLoader.set_data

        def set_data(loader, path, data, **named):
            if not os.path.realpath(path).startswith(archive):
                write(loader, path, data, **named)

        SourceFileLoader.set_data = set_data

    def move_import_path(self):
        """Modules beside the file are imported from the archive's layout."""
        import os
        import sys

        moved = {self.published: self.version, os.path.dirname(self.published): self.directory}
        sys.path[:] = [moved.get(entry, entry) for entry in sys.path]
        globals()["__file__"] = os.path.join(self.version, self.file_name)

    def move_package(self):
        """So are those that it imports relative to itself, and its __init__.py is run."""
        import os
        import sys
        from importlib.util import spec_from_file_location

        package = sys.modules.get(globals().get("__package__") or "")
        if package is None:
            return
        package.__path__ = [self.version]
        init = os.path.join(self.version, "__init__.py")
        if os.path.exists(init):
            spec = spec_from_file_location(
                package.__name__, init, submodule_search_locations=[self.version]
            )
            package.__spec__, package.__loader__, package.__file__ = spec, spec.loader, init
            spec.loader.exec_module(package)

    def execute(self, path, module):
        with open(path, "rb") as file:
            exec(compile(file.read(), path, "exec", dont_inherit=True), module)

    # --- paths that tritonserver tells the model become those of its archive

    def tell_directory_to(self, model):
        """tritonserver puts its own get_model_dir in once this file was imported."""
        make, complete = model.__init__, getattr(model, "auto_complete_config", None)

        def tell_directory():
            self.pb_utils.get_model_dir = lambda: self.version

        def __init__(model, *arguments, **named):
            tell_directory()
            make(model, *arguments, **named)

        def auto_complete_config(config):
            tell_directory()
            return complete(config)

        model.__init__ = __init__
        if complete is not None:
            model.auto_complete_config = staticmethod(auto_complete_config)

    def tell_arguments_to(self, model):
        initialize = self.getattr_static(model, "initialize", None)
        if initialize is None:
            return
        bind = getattr(type(initialize), "__get__", lambda function, *_: function)

        def initialize_there(model, args):
            return bind(initialize, model, type(model))(self.put_in_archive(args))

        model.initialize = initialize_there

    def put_in_archive(self, args):
        """Triton's rule is that a model is called like its directory, and models build on it."""
        own = {**args, "model_repository": self.directory, "model_name": self.own_name}
        if "model_config" in args:
            config = {**self.json.loads(args["model_config"]), "name": self.own_name}
            own["model_config"] = self.json.dumps(config)
        return own


# --- what this model does
