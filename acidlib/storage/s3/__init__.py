"""Tables in buckets of S3: reading them, writing results as multipart uploads, publishing by completing these.

Nothing outside this package knows boto3. A path is a whole URI, `s3a://bucket/key`; `s3` and `s3n` are other names of
the same store.
"""
