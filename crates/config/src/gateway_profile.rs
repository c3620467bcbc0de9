//! Profiles for the clients of a gateway (`gatewayProfiles` in the settings, AGT-2).

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::editor::get;
use crate::files;
use crate::layout::Layout;

/// The member of the settings.
const KEY: &str = "gatewayProfiles";

/// What a client of a gateway may see and do.
///
/// Profiles count from the settings of the organisation and of the user; where both have one of the
/// same name, the organisation's counts. A repository cannot define one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct GatewayProfile {
    /// The servers, by name; `*` matches anything. `None` for all.
    pub servers: Option<Vec<String>>,
    /// The tools, as in permission rules: `mcp__server`, `mcp__server__tool`. `None` for all.
    pub tools: Option<Vec<String>>,
    /// Tools to hide, as in permission rules.
    pub deny: Vec<String>,
    /// Only tools that their servers declare read-only.
    pub read_only: bool,
    /// The most calls, reads and prompts in a minute.
    pub requests_per_minute: Option<u32>,
}

impl GatewayProfile {
    /// Reads the profiles of the settings, by name.
    ///
    /// # Errors
    ///
    /// A settings file has some that cannot be used.
    pub fn load(layout: &Layout) -> Result<BTreeMap<String, Self>, String> {
        let mut profiles = Self::read(&layout.settings_file())?;
        profiles.extend(Self::read(&layout.managed_settings())?);
        Ok(profiles)
    }

    fn read(file: &Path) -> Result<BTreeMap<String, Self>, String> {
        let unreadable = |error: String| format!("cannot read {}: {error}", file.display());
        let text = files::read(file).map_err(|error| unreadable(error.to_string()))?;
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            return Ok(BTreeMap::new());
        };
        let value = get(file, &text, &[KEY]).map_err(|error| unreadable(error.to_string()))?;
        let Some(value) = value else {
            return Ok(BTreeMap::new());
        };
        serde_json::from_value(value)
            .map_err(|error| format!("\"{KEY}\" in {}: {error}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_organisations_profiles_win_and_bad_ones_are_errors() {
        let home = tempfile::tempdir().unwrap();
        let mut layout = Layout::under(home.path());
        layout.managed_dir = home.path().join("managed");
        assert_eq!(GatewayProfile::load(&layout), Ok(BTreeMap::new()));
        let settings = layout.settings_file();
        fs::create_dir_all(settings.parent().unwrap()).unwrap();
        fs::create_dir_all(&layout.managed_dir).unwrap();
        fs::write(
            &settings,
            r#"{"gatewayProfiles": {"a": {"servers": ["git*"], "readOnly": true}, "b": {}}}"#,
        )
        .unwrap();
        fs::write(
            layout.managed_settings(),
            r#"{"gatewayProfiles": {"b": {"deny": ["mcp__x"], "requestsPerMinute": 5}}}"#,
        )
        .unwrap();
        let profiles = GatewayProfile::load(&layout).unwrap();
        assert_eq!(
            profiles["a"].servers.as_deref(),
            Some(&["git*".to_owned()][..])
        );
        assert!(profiles["a"].read_only);
        assert_eq!(profiles["b"].requests_per_minute, Some(5));
        for (text, expected) in [
            (
                r#"{"gatewayProfiles": {"a": {"server": []}}}"#,
                "unknown field `server`",
            ),
            (r#"{"gatewayProfiles": []}"#, "invalid type"),
        ] {
            fs::write(&settings, text).unwrap();
            let error = GatewayProfile::load(&layout).unwrap_err();
            assert!(
                error.contains(expected) && error.contains("settings.json"),
                "{error}"
            );
        }
    }
}
