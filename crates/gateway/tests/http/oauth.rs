//! The endpoint as a protected resource of an issuer.
