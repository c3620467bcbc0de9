//! Pages of a list. An invalid item costs only itself.

use bytestring::ByteString;

use super::Item;
use crate::json::Json;
use crate::scan::has_more_values;

/// The lists of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// `tools/list`
    Tools,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    ResourceTemplates,
    /// `prompts/list`
    Prompts,
}

impl ListKind {
    /// Returns the method that fetches the list.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::ResourceTemplates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// Returns the member of the result that holds the list.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }
}

/// The maximum number of items in a list (SEC-4).
pub const MAX_ITEMS: usize = 100_000;

/// The maximum number of values in one item, at any depth (SEC-4). Schemas and `_meta` become
/// trees, which take many times the memory of the text.
const MAX_ITEM_VALUES: usize = 100_000;

/// An item that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidItem {
    /// The position in the list, from 0.
    pub index: usize,
    /// The cause.
    pub reason: String,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The valid items, in the order of the server.
    pub items: Vec<T>,
    /// The invalid items.
    pub invalid: Vec<InvalidItem>,
    /// The cursor of the next page.
    pub next_cursor: Option<ByteString>,
    /// Whether items beyond [`MAX_ITEMS`] were dropped.
    pub truncated: bool,
    /// Whether the cursor is not a string.
    pub invalid_cursor: bool,
    /// The time for which the page is fresh, in milliseconds.
    pub ttl_ms: Option<u64>,
}

impl<T: Item> Page<T> {
    /// Reads the result of a list request. Fails only if it contains no list.
    pub fn from_json(kind: ListKind, result: &Json) -> Result<Self, String> {
        Self::from_member(kind.member(), result)
    }

    /// Like [`Page::from_json`], for any member.
    pub(crate) fn from_member(member: &str, result: &Json) -> Result<Self, String> {
        let (mut items, mut invalid, mut index) = (Vec::new(), Vec::new(), 0);
        let (mut next_cursor, mut invalid_cursor, mut ttl_ms) = (None, false, None);
        let (object, list) = result.members_and_list(
            member,
            |key, value| match key {
                "nextCursor" => {
                    next_cursor = value.as_string();
                    invalid_cursor = next_cursor.is_none() && !value.is_null();
                }
                "ttlMs" => ttl_ms = value.decode().ok(),
                _ => {}
            },
            |entry| {
                if index < MAX_ITEMS {
                    match read_item(entry) {
                        Ok(item) => items.push(item),
                        Err(reason) => invalid.push(InvalidItem { index, reason }),
                    }
                }
                index += 1;
            },
        );
        match list {
            _ if !object => Err("it is not an object".to_owned()),
            None => Err(format!("it has no `{member}`")),
            Some(false) => Err(format!("its `{member}` is not a list")),
            Some(true) => Ok(Self {
                items,
                invalid,
                next_cursor,
                truncated: index > MAX_ITEMS,
                invalid_cursor,
                ttl_ms,
            }),
        }
    }
}

fn read_item<T: Item>(entry: Json) -> Result<T, String> {
    if has_more_values(entry.as_str(), MAX_ITEM_VALUES) {
        return Err(format!("it has more than {MAX_ITEM_VALUES} values"));
    }
    T::from_json(entry)
}

#[cfg(test)]
mod tests {
    use super::super::Tool;
    use super::*;

    fn read(text: &str) -> Result<Page<Tool>, String> {
        Page::from_json(ListKind::Tools, &Json::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn an_invalid_item_is_reported_and_the_others_are_kept() {
        let page = read(
            r#"{"tools":[{"name":"a","inputSchema":{}},7,{"inputSchema":{}},{"name":5},{"name":"b","extra":[1]}],
                "nextCursor":"c","ttlMs":60000,"more":1}"#,
        )
        .unwrap();
        let names: Vec<_> = page
            .items
            .iter()
            .map(|tool| tool.name.to_string())
            .collect();
        assert_eq!(names, ["a", "b"]);
        let invalid: Vec<_> = page.invalid.iter().map(|invalid| invalid.index).collect();
        assert_eq!(invalid, [1, 2, 3]);
        assert_eq!(page.next_cursor.as_deref(), Some("c"));
        assert_eq!(page.ttl_ms, Some(60_000));
    }

    #[test]
    fn an_item_with_too_many_values_is_invalid() {
        for (values, invalid) in [(MAX_ITEM_VALUES - 10, 0), (MAX_ITEM_VALUES, 1)] {
            let values = vec!["0"; values].join(",");
            for member in ["inputSchema", "outputSchema", "_meta", "annotations", "x"] {
                let tool = format!(r#"{{"name":"a","{member}":{{"enum":[{values}]}}}}"#);
                let page = read(&format!(r#"{{"tools":[{tool},{{"name":"b"}}]}}"#)).unwrap();
                assert_eq!(
                    (page.items.len(), page.invalid.len()),
                    (2 - invalid, invalid)
                );
            }
        }
    }

    #[test]
    fn a_list_over_the_limit_is_truncated() {
        let page = read(&format!(
            r#"{{"tools":[{}]}}"#,
            vec!["1"; MAX_ITEMS + 5].join(",")
        ))
        .unwrap();
        assert!(page.truncated && page.items.is_empty());
        assert_eq!(page.invalid.len(), MAX_ITEMS);
    }

    #[test]
    fn a_result_without_a_list_is_an_error() {
        for text in ["{}", "[]", "null", r#"{"tools":{}}"#, r#"{"tools":null}"#] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(
            read(r#"{"tools":[],"nextCursor":null}"#)
                .unwrap()
                .next_cursor
                .is_none()
        );
    }
}
