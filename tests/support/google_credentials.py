"""Google credentials for processes that call fakes of Google's services."""

import json
from pathlib import Path


def write_credentials_file(folder: Path) -> Path:
    """Write credentials whose access token does not expire, so no client refreshes it.

    Args:
        folder: The folder of the new file.

    Returns:
        The file, for the environment variable GOOGLE_APPLICATION_CREDENTIALS.
    """
    path = folder / "credentials.json"
    credentials = {
        "type": "authorized_user",
        "client_id": "a-test",
        "client_secret": "a-test",
        "refresh_token": "a-test",
        "token": "a-test",
        "expiry": "2999-12-31T00:00:00Z",
        "quota_project_id": "a-test",
    }
    path.write_text(json.dumps(credentials), encoding="utf-8")
    return path
