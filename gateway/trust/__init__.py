"""Who is who and may do what: keys, certificates, TLS, policy, and what each may use."""
