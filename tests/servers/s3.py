"""A server that speaks S3, for the tests: versitygw on a directory, or MinIO.

They judge alike but for what MinIO does in its own way, so the faster one is the usual judge;
``ACIDLIB_TEST_S3=minio`` has the tests run against the other.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from servers.errors import ServerError
from servers.go_programs import SOURCES, built
from servers.process import ServerProcess, Startable, free_port, listens

SWITCH = "ACIDLIB_TEST_S3"
REGION = "us-east-1"
ACCESS_KEY = "tests"
SECRET_KEY = "tests-secret"


class S3Server(Startable):
    """One server on a free port of 127.0.0.1; ``judge`` says which one it is."""

    def __init__(self, directory: Path) -> None:
        """Starts nothing yet; ``directory`` is its own and gets its buckets and its log."""
        self.judge = os.environ.get(SWITCH) or "versitygw"
        self.port = free_port()
        self.log = directory / "log"
        self._directory = directory
        self._process: ServerProcess | None = None
        self._clients: dict[int, Any] = {}

    @property
    def endpoint(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def properties(self, endpoint: str | None = None) -> dict[str, str]:
        """How Hadoop would be told to reach it; by another way to it, where one is given."""
        return {
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
            "fs.s3a.endpoint": endpoint or self.endpoint,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            # else S3A deletes markers of directories that are not empty, which versitygw refuses, and S3A tries again
            # for minutes
            "fs.s3a.directory.marker.retention": "keep",
        }

    def client(self) -> Any:
        """A plain client, one for each process, which shares no code with the engine."""
        if os.getpid() not in self._clients:
            self._clients[os.getpid()] = boto3.client(
                "s3",
                endpoint_url=self.endpoint,
                region_name=REGION,
                aws_access_key_id=ACCESS_KEY,
                aws_secret_access_key=SECRET_KEY,
                config=Config(s3={"addressing_style": "path"}),
            )
        return self._clients[os.getpid()]

    def new_bucket(self) -> str:
        """The name of a bucket that was just made."""
        name = f"b{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name

    def start(self) -> None:
        """Starts it, unless it runs. Raises ServerError with the end of its log."""
        if self.judge not in SOURCES:
            raise ServerError(f"Cannot start a server of S3: {SWITCH}={self.judge} names none that is known")
        program = built(self.judge)
        data = self._directory / "data"
        data.mkdir(exist_ok=True)
        address = f"127.0.0.1:{self.port}"
        keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        command = [str(program), "--port", address, "--region", REGION, "posix", str(data)]
        if self.judge == "minio":
            keys = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY, "MINIO_UPDATE": "off"}
            command = [str(program), "server", "--quiet", "--address", address, str(data)]
        self._process = ServerProcess(
            self.judge,
            command=command,
            log=self.log,
            ready=lambda: listens(self.port),
            environment={**os.environ, **keys},
            directory=self._directory,
        )
        self._process.start()

    def stop(self) -> None:
        """Ends it in an orderly way."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """Ends it as a crash would."""
        if self._process is not None:
            self._process.kill()
