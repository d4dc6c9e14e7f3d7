"""Guards turn an untrusted value into a trusted one, or refuse. Handlers see only the result."""
