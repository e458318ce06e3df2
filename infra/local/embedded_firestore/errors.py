"""Errors with the status codes of gRPC."""

from __future__ import annotations

import grpc


class FirestoreError(Exception):
    """A request that Firestore answers with an error."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        """Keep the code and the message."""
        super().__init__(message)
        self.code = code
        self.message = message


class DatabaseFileError(Exception):
    """A file cannot be opened as a database. The message is for people."""


def invalid_argument(message: str) -> FirestoreError:
    """Return the error of a request that is wrong whatever the database contains."""
    return FirestoreError(grpc.StatusCode.INVALID_ARGUMENT, message)


def unimplemented(name: str) -> FirestoreError:
    """Return the error of something that production has and this package has not."""
    return FirestoreError(
        grpc.StatusCode.UNIMPLEMENTED, f"The embedded Firestore does not support {name}."
    )
