"""The socket side: strict reading of requests, writing of responses, one selector thread and its workers.

Only this package knows sockets. It hands whole `Request` values to a `Handler` and sends what that answers.
"""
