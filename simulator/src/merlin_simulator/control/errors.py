"""What a service tells its caller, by the service's own code. No HTTP numbers but in status."""

from __future__ import annotations


class ServiceError(Exception):
    """A call that is not carried out. code: as the service model has it; message: for people."""

    status = 400
    code = "ValidationException"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.code


class ResourceInUse(ServiceError):
    """SageMaker: something else needs it, or it changes at the moment."""

    code = "ResourceInUse"


class ResourceNotFound(ServiceError):
    """SageMaker: there is nothing of that name."""

    code = "ResourceNotFound"


class ResourceLimitExceeded(ServiceError):
    """SageMaker: an account's quota."""

    code = "ResourceLimitExceeded"


class UnknownOperation(ServiceError):
    """No operation of the service, or none that this simulator knows."""

    code = "UnknownOperationException"


class Unserializable(ServiceError):
    """The body is no JSON object, or a member has another type than the service model says."""

    code = "SerializationException"


class BodyTooLong(ServiceError):
    """More bytes than any call of the service needs; most: how many it takes."""

    status = 413
    code = "RequestEntityTooLargeException"

    def __init__(self, most: int) -> None:
        super().__init__(f"The request's body has more than {most} bytes: send less of it at once.")


class SimulatorFailed(ServiceError):
    """The simulator's own fault, or its machine's."""

    status = 500
    code = "InternalFailure"
