//! The contents of resources.

use bytestring::ByteString;

use super::InvalidItem;
use crate::json::Json;

/// The maximum number of contents that are read from one result, and of reasons for those that are
/// invalid (SEC-4).
const MAX_CONTENTS: usize = 10_000;
const MAX_INVALID: usize = 100;

/// The content of a resource.
#[derive(Clone, Debug)]
pub struct ResourceContent {
    /// The URI of the resource that was read, or of one below it.
    pub uri: ByteString,
    /// The MIME type.
    pub mime_type: Option<ByteString>,
    /// The text or bytes.
    pub body: ResourceBody,
    /// The whole item as the server wrote it.
    pub raw: Json,
}

/// Text or binary data.
#[derive(Clone, Debug)]
pub enum ResourceBody {
    /// Text. Untrusted.
    Text(ByteString),
    /// Base64, as the server wrote it.
    Blob(ByteString),
}

/// The result of `resources/read`.
#[derive(Clone, Debug)]
pub struct ReadResourceResult {
    /// The contents, in the order of the server.
    pub contents: Vec<ResourceContent>,
    /// The contents that could not be read. The last one stands for all after it if there are many.
    pub invalid: Vec<InvalidItem>,
}

impl ReadResourceResult {
    /// Reads the result of `resources/read`. Fails only if it contains no contents. `uri` is the
    /// default for contents without a URI.
    pub fn from_json(result: &Json, uri: &str) -> Result<Self, String> {
        let contents = result.get("contents").ok_or("it has no `contents`")?;
        let mut read = Self {
            contents: Vec::new(),
            invalid: Vec::new(),
        };
        let (mut index, mut considered) = (0, 0);
        let list = contents.elements(|raw| {
            if read.contents.len() < MAX_CONTENTS && read.invalid.len() < MAX_INVALID {
                match content(raw, uri) {
                    Ok(content) => read.contents.push(content),
                    Err(reason) => read.invalid.push(InvalidItem { index, reason }),
                }
                considered = index + 1;
            }
            index += 1;
        });
        if considered < index {
            let rest = index - considered;
            read.invalid.push(InvalidItem {
                index: considered,
                reason: format!("there are too many, and so are the {rest} from here on"),
            });
        }
        if list {
            Ok(read)
        } else {
            Err("its `contents` are not a list".to_owned())
        }
    }
}

fn content(raw: Json, uri: &str) -> Result<ResourceContent, String> {
    let (mut own, mut mime_type, mut text, mut blob) = (None, None, None, None);
    let object = raw.members(|key, value| match key {
        "uri" => own = value.as_string(),
        "mimeType" => mime_type = value.as_string(),
        "text" => text = value.as_string(),
        "blob" => blob = value.as_string(),
        _ => {}
    });
    if !object {
        return Err("it is not an object".to_owned());
    }
    let body = match (text, blob) {
        (Some(text), _) => ResourceBody::Text(text),
        (None, Some(blob)) => ResourceBody::Blob(blob),
        (None, None) => return Err("it has neither text nor blob".to_owned()),
    };
    Ok(ResourceContent {
        uri: own.unwrap_or_else(|| uri.into()),
        mime_type,
        body,
        raw,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_content_costs_only_itself() {
        let result = Json::parse(
            r#"{"contents":[{"uri":"a:1","text":"t","mimeType":"text/x"},{"blob":"AA=="},7,{"uri":"a:2"},{"uri":5,"text":[]}]}"#,
        )
        .unwrap();
        let read = ReadResourceResult::from_json(&result, "a:0").unwrap();
        let uris: Vec<_> = read.contents.iter().map(|one| &*one.uri).collect();
        assert_eq!(uris, ["a:1", "a:0"]);
        assert!(matches!(&read.contents[0].body, ResourceBody::Text(text) if text == "t"));
        assert!(matches!(&read.contents[1].body, ResourceBody::Blob(blob) if blob == "AA=="));
        let invalid: Vec<_> = read.invalid.iter().map(|invalid| invalid.index).collect();
        assert_eq!(invalid, [2, 3, 4]);
        for (one, contents, invalid) in
            [("{}", 0, MAX_INVALID), (r#"{"text":""}"#, MAX_CONTENTS, 0)]
        {
            let many = vec![one; MAX_CONTENTS + 5].join(",");
            let many = Json::parse(format!(r#"{{"contents":[{many}]}}"#)).unwrap();
            let read = ReadResourceResult::from_json(&many, "a:0").unwrap();
            assert_eq!(
                (read.contents.len(), read.invalid.len()),
                (contents, invalid + 1)
            );
            let rest = read.invalid.last().unwrap();
            let expected = MAX_CONTENTS + 5 - contents - invalid;
            assert!(
                rest.reason.contains(&format!(" {expected} ")),
                "{}",
                rest.reason
            );
        }
        for text in ["{}", "[]", r#"{"contents":{}}"#, r#"{"contents":null}"#] {
            assert!(ReadResourceResult::from_json(&Json::parse(text).unwrap(), "a:0").is_err());
        }
    }
}
