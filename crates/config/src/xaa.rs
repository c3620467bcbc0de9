//! The enterprise identity provider (`xaaIdp` in the settings, AUTH-9).

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use crate::editor::{ChangeError, Editor, WriteOutcome, bad_file, get, remove, set};
use crate::files;
use crate::layout::Layout;
use crate::scopes::Scope;

/// The member of the settings.
const KEY: &str = "xaaIdp";

/// The identity provider through which users sign in to servers with `oauth.xaa`.
///
/// It counts from the settings of the organisation, or else from the user's: a repository cannot
/// choose where the user signs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct XaaIdp {
    /// The issuer of the ID tokens.
    pub issuer: String,
    /// Our client id there.
    pub client_id: String,
    /// The port for the callback of the browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<u16>,
}

impl XaaIdp {
    /// Checks the settings of an identity provider.
    ///
    /// # Errors
    ///
    /// The issuer is not an https URL (loopback excepted), or the client id is empty.
    pub fn new(
        issuer: impl Into<String>,
        client_id: impl Into<String>,
        callback_port: Option<u16>,
    ) -> Result<Self, String> {
        let idp = Self {
            issuer: issuer.into(),
            client_id: client_id.into(),
            callback_port,
        };
        idp.check()?;
        Ok(idp)
    }

    fn check(&self) -> Result<(), String> {
        let url: Url = self.issuer.parse().map_err(|error| {
            format!("the issuer must be an https URL, for example https://idp.example: {error}")
        })?;
        let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if url.scheme() != "https" && !(url.scheme() == "http" && is_local) {
            return Err("the issuer must be an https URL".to_owned());
        }
        if self.client_id.is_empty() {
            return Err("the client id is empty".to_owned());
        }
        Ok(())
    }

    /// Reads the identity provider of the settings, with the file that it comes from.
    ///
    /// # Errors
    ///
    /// A settings file has one that cannot be used.
    pub fn load(layout: &Layout) -> Result<Option<(Self, std::path::PathBuf)>, String> {
        for file in [layout.managed_settings(), layout.settings_file()] {
            if let Some(found) = Self::read(&file)? {
                return Ok(Some((found, file)));
            }
        }
        Ok(None)
    }

    fn read(file: &Path) -> Result<Option<Self>, String> {
        let unreadable = |error: String| format!("cannot read {}: {error}", file.display());
        let text = files::read(file).map_err(|error| unreadable(error.to_string()))?;
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            return Ok(None);
        };
        let value = get(file, &text, &[KEY]).map_err(|error| unreadable(error.to_string()))?;
        let Some(value) = value else {
            return Ok(None);
        };
        let problem = |problem: String| format!("\"{KEY}\" in {}: {problem}", file.display());
        let idp: Self =
            serde_json::from_value(value).map_err(|error| problem(error.to_string()))?;
        idp.check().map_err(problem)?;
        Ok(Some(idp))
    }
}

impl Editor {
    /// Writes the identity provider into the user's settings, or removes it.
    ///
    /// # Errors
    ///
    /// The organisation's settings have one, or the file cannot be changed.
    pub fn set_xaa_idp(&self, idp: Option<&XaaIdp>) -> Result<WriteOutcome, ChangeError> {
        let managed = self.layout().managed_settings();
        if !matches!(XaaIdp::read(&managed), Ok(None)) {
            return Err(ChangeError::Exclusive(managed));
        }
        let file = self.layout().settings_file();
        let changed = self.edit(&file, |text| match idp {
            Some(idp) => {
                let text = if text.trim().is_empty() { "{}\n" } else { text };
                let value = serde_json::to_value(idp).map_err(|error| bad_file(&file, error))?;
                set(&file, text, &[KEY], &json!(value)).map(Some)
            }
            None if text.trim().is_empty() => Ok(None),
            None => remove(&file, text, &[KEY]),
        })?;
        Ok(self.outcome(file, Scope::User, changed))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_organisation_comes_first_and_a_project_does_not_count() {
        let home = tempfile::tempdir().unwrap();
        let mut layout = Layout::under(home.path());
        layout.managed_dir = home.path().join("managed");
        let editor = Editor::new(layout.clone(), home.path());
        assert_eq!(XaaIdp::load(&layout), Ok(None));
        let idp = XaaIdp::new("https://idp.example", "desk", Some(4000)).unwrap();
        let written = editor.set_xaa_idp(Some(&idp)).unwrap();
        assert!(written.changed);
        let (loaded, file) = XaaIdp::load(&layout).unwrap().unwrap();
        assert_eq!((loaded, file), (idp.clone(), layout.settings_file()));

        fs::create_dir_all(&layout.managed_dir).unwrap();
        let managed = layout.managed_settings();
        fs::write(
            &managed,
            r#"{"xaaIdp": {"issuer": "https://m.example", "clientId": "m"}}"#,
        )
        .unwrap();
        let (loaded, file) = XaaIdp::load(&layout).unwrap().unwrap();
        assert_eq!((loaded.client_id.as_str(), file), ("m", managed.clone()));
        assert!(editor.set_xaa_idp(None).unwrap_err().is_refused());
        fs::remove_file(&managed).unwrap();
        assert!(editor.set_xaa_idp(None).unwrap().changed);
        assert_eq!(XaaIdp::load(&layout), Ok(None));
    }

    #[test]
    fn settings_that_cannot_be_used_are_errors() {
        for (issuer, client) in [
            ("idp.example", "c"),
            ("http://idp.example", "c"),
            ("https://idp.example", ""),
            ("javascript:alert(1)", "c"),
        ] {
            assert!(XaaIdp::new(issuer, client, None).is_err(), "{issuer}");
        }
        assert!(XaaIdp::new("http://127.0.0.1:4000", "c", None).is_ok());
        let home = tempfile::tempdir().unwrap();
        let layout = Layout::under(home.path());
        fs::create_dir_all(layout.settings_file().parent().unwrap()).unwrap();
        fs::write(layout.settings_file(), r#"{"xaaIdp": {"issuer": 1}}"#).unwrap();
        let problem = XaaIdp::load(&layout).unwrap_err();
        assert!(problem.contains("xaaIdp"), "{problem}");
    }
}
