//! The identity under which a sign-in is stored.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};
use serde_json::json;
use trunkline_config::{GrantType, OAuthEntry};
use url::Url;

use super::Account;

/// The account of a server without a named one.
const DEFAULT_ACCOUNT: &str = "default";

/// Identifies the sign-in of one account at one server.
///
/// A sign-in belongs to the URL and to the settings that decide who issues tokens: a server whose
/// URL changes gets no token of its predecessor. Scopes and the callback port are not part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerIdentity {
    server: String,
    account: String,
    key: String,
}

impl ServerIdentity {
    /// Creates the identity of `account`, or of the default account, at a server.
    pub fn new(server: &str, url: &Url, oauth: &OAuthEntry, account: Option<&str>) -> Self {
        let account = account.unwrap_or(DEFAULT_ACCOUNT);
        let mut relevant = vec![
            json!(url.as_str()),
            json!(oauth.client_id),
            json!(oauth.auth_server_metadata_url),
            json!(oauth.xaa),
        ];
        // The tokens of a user are not those of a program, even with the same client.
        if oauth.grant_type == GrantType::ClientCredentials {
            relevant.push(json!("client_credentials"));
        }
        let relevant = json!(relevant).to_string();
        let hash = hex(&digest(&SHA256, relevant.as_bytes()).as_ref()[..8]);
        Self {
            server: server.to_owned(),
            account: account.to_owned(),
            key: format!("{server}|{hash}|{account}"),
        }
    }

    /// The identity of a sign-in in the list of accounts.
    pub(crate) fn stored(account: &Account, key: String) -> Self {
        Self {
            server: account.server.clone(),
            account: account.account.clone(),
            key,
        }
    }

    /// The identity of the sign-in at an identity provider.
    pub(crate) fn of_idp(issuer: &str, client_id: &str) -> Self {
        let hash =
            hex(&digest(&SHA256, json!([issuer, client_id]).to_string().as_bytes()).as_ref()[..8]);
        Self {
            server: issuer.to_owned(),
            account: DEFAULT_ACCOUNT.to_owned(),
            key: format!("xaa idp|{hash}"),
        }
    }

    /// The name of the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The name of the account.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// Whether no account was named.
    pub(crate) fn is_default_account(&self) -> bool {
        self.account == DEFAULT_ACCOUNT
    }

    /// The key of the sign-in in the vault and in the needs-auth memory.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A file name for the lock of this sign-in.
    pub(crate) fn file_stem(&self) -> String {
        hex(&digest(&SHA256, self.key.as_bytes()).as_ref()[..12])
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_follows_the_url_and_the_issuer_settings() {
        let url: Url = "https://a.example/mcp".parse().unwrap();
        let plain = OAuthEntry::default();
        let identity = |name: &str, url: &Url, oauth: &OAuthEntry, account: Option<&str>| {
            ServerIdentity::new(name, url, oauth, account)
                .key()
                .to_owned()
        };
        let base = identity("a", &url, &plain, None);
        assert!(
            base.starts_with("a|") && base.ends_with("|default"),
            "{base}"
        );
        let with_scopes = OAuthEntry {
            scopes: Some(vec!["x".to_owned()]),
            callback_port: Some(1),
            ..plain.clone()
        };
        assert_eq!(identity("a", &url, &with_scopes, None), base);
        let with_id = OAuthEntry {
            client_id: Some("id".to_owned()),
            ..plain.clone()
        };
        let machine = OAuthEntry {
            grant_type: GrantType::ClientCredentials,
            ..with_id.clone()
        };
        let user = identity("a", &url, &with_id, None);
        assert_ne!(identity("a", &url, &machine, None), user);
        let others = [
            identity("b", &url, &plain, None),
            identity(
                "a",
                &"https://a.example/other".parse().unwrap(),
                &plain,
                None,
            ),
            identity("a", &url, &with_id, None),
            identity("a", &url, &plain, Some("work")),
        ];
        for other in others {
            assert_ne!(other, base);
        }
    }
}
