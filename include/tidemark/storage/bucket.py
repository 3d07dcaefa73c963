"""Make a bucket of S3, or of a store that speaks its protocol.

By boto3, which is in the extra `s3` of the package: neither obstore nor delta-rs makes one.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from tidemark.errors import SettingsInvalid, StorageUnavailable
from tidemark.storage.files import Options

# The region of all buckets that are made without one.
_FIRST_REGION = "us-east-1"


def make_bucket(root: str, options: Options) -> None:
    """Make the bucket of a root; one of the same owner that is there already stays as it is.

    Raises SettingsInvalid where the root is not on S3 or boto3 is missing, StorageUnavailable with
    what the store says.
    """
    parts = urlsplit(root)
    if parts.scheme != "s3":
        raise SettingsInvalid(
            f"The root {root} is not on S3: make its bucket with its store's own tools."
        )
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as error:
        raise SettingsInvalid(
            "Buckets are made by boto3, which is not installed: "
            "pip install 'tidemark-streaming[s3]'. "
            "Nothing was made."
        ) from error
    region = options.get("AWS_REGION", _FIRST_REGION)
    client = boto3.client(
        "s3",
        region_name=region,
        endpoint_url=options.get("AWS_ENDPOINT_URL"),
        aws_access_key_id=options.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=options.get("AWS_SECRET_ACCESS_KEY"),
        aws_session_token=options.get("AWS_SESSION_TOKEN"),
    )
    place = {} if region == _FIRST_REGION else {"LocationConstraint": region}
    try:
        client.create_bucket(
            Bucket=parts.netloc, **({"CreateBucketConfiguration": place} if place else {})
        )
    except client.exceptions.BucketAlreadyOwnedByYou:
        return
    except (BotoCoreError, ClientError) as error:
        raise StorageUnavailable(f"The bucket {parts.netloc} was not made: {error}") from error
