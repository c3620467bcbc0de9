//! Keeps secrets out of everything that is shown or stored (SEC-1).
//!
//! Secrets are found in two ways. **By value**: [`Redactor`] masks known secrets wherever they
//! appear; a connection registers [`entry_secrets`], keychain values and tokens. **By shape**:
//! [`redact_text`] masks `NAME=value` and `"name": "value"` with a secret name, `Authorization`
//! headers, credentials in URLs, and tokens of well-known services. [`redact_entry`] also knows
//! which fields of an entry hold secrets.
//!
//! | to show or store | use |
//! |---|---|
//! | an entry as written (`get`, previews, `approvals.json`) | [`redact_entry`] |
//! | a URL | [`redact_url`] |
//! | any other text | [`redact_text`], or [`Redactor::text`] if the server's secrets are known |
//!
//! Values that cannot be secrets stay readable: booleans, numbers, file paths, and URLs without
//! credentials. A secret with neither a known value nor a known shape cannot be found; review a
//! trace before sharing it.

mod args;
mod classify;
mod code;
mod code_words;
mod encodings;
mod entry;
mod entry_secrets;
mod literal;
mod patterns;
mod ranges;
mod redactor;
mod references;
mod secret_names;
mod tokens;
mod urls;

pub use entry::{RedactMode, redact_entry};
pub use entry_secrets::{display_redactor, entry_secrets, header_secrets, is_inherited_secret};
pub use literal::{LiteralSecret, literal_secrets};
pub use patterns::redact_text;
pub use ranges::redact_url;
pub use redactor::Redactor;
pub use secret_names::is_secret_name;
