//! The redactor: keeps secrets out of everything that is shown or stored (SEC-1).
//!
//! It works in two ways. **By value**: [`Redactor`] masks the secrets it was told, wherever they appear; a connection
//! tells it [`entry_secrets`], keychain values and tokens. **By shape**: [`redact_text`] masks `NAME=value` and
//! `"name": "value"` where the name is telling, `Authorization` headers, credentials in URLs, and well-known kinds of
//! tokens. [`redact_entry`] knows which fields of an entry hold secrets and masks those by position.
//!
//! | to show or store | use |
//! |---|---|
//! | an entry as written (`get`, previews) | [`redact_entry`] |
//! | an entry with a hash for each secret (`approvals.json`) | [`redact_entry_with`] |
//! | a URL | [`redact_url`] |
//! | any other text | [`redact_text`], or [`Redactor::text`] where the server's secrets are known |
//!
//! A value is left readable where it cannot be a secret: booleans, numbers, file paths, and URLs without credentials. A
//! secret without a telling name or shape that we never handled ourselves cannot be found; a trace should be read before
//! it is passed on.

mod code;
mod entry;
mod known;
mod literal;
mod names;
mod plain;
mod shape;

pub use entry::{
    RedactMode, entry_secrets, header_secrets, redact_entry, redact_entry_with, redact_url,
};
pub use known::Redactor;
pub use literal::{LiteralSecret, literal_secrets};
pub use names::is_secret_name;
pub use shape::redact_text;
