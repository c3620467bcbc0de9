//! Typed content blocks, decoded on access.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use trunkline_wire::Json;

use super::ContentBlock;

/// One content block of a result or a prompt, by its type.
///
/// Nothing is decoded or copied before an accessor asks for it; [`raw`](Self::raw) is the block as
/// JSON. All texts are untrusted.
///
/// ```
/// # fn show(output: &trunkline::CallOutput) {
/// use trunkline::result::Content;
///
/// for content in output.content() {
///     match content {
///         Content::Text(text) => println!("{}", text.text()),
///         Content::Image(image) => println!("an image of type {:?}", image.mime_type()),
///         Content::ResourceLink(link) => println!("see {:?}", link.uri()),
///         other => println!("{}", other.raw()),
///     }
/// }
/// # }
/// # show(&trunkline::CallOutput::of_text("hello"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(MediaContent),
    /// A sound.
    Audio(MediaContent),
    /// A resource, with its content.
    Resource(EmbeddedResource),
    /// A resource to read elsewhere.
    ResourceLink(ResourceLink),
    /// A block of another type, or without a type.
    Unknown(UnknownContent),
}

/// A text block.
#[derive(Clone, Debug)]
pub struct TextContent(ContentBlock);

/// An image or a sound.
#[derive(Clone, Debug)]
pub struct MediaContent(Json);

/// A resource within a result.
#[derive(Clone, Debug)]
pub struct EmbeddedResource(Json);

/// A link to a resource.
#[derive(Clone, Debug)]
pub struct ResourceLink(Json);

/// A block of a type that this version does not know.
#[derive(Clone, Debug)]
pub struct UnknownContent(ContentBlock);

impl Content {
    /// Returns the block as JSON: as the server wrote it, unless the host had to change it for a
    /// model.
    pub fn raw(&self) -> Json {
        match self {
            Self::Text(TextContent(block)) | Self::Unknown(UnknownContent(block)) => {
                block.to_json()
            }
            Self::Image(MediaContent(raw))
            | Self::Audio(MediaContent(raw))
            | Self::Resource(EmbeddedResource(raw))
            | Self::ResourceLink(ResourceLink(raw)) => raw.clone(),
        }
    }
}

impl From<&ContentBlock> for Content {
    fn from(block: &ContentBlock) -> Self {
        match block.kind() {
            "text" => Self::Text(TextContent(block.clone())),
            "image" => Self::Image(MediaContent(block.to_json())),
            "audio" => Self::Audio(MediaContent(block.to_json())),
            "resource" => Self::Resource(EmbeddedResource(block.to_json())),
            "resource_link" => Self::ResourceLink(ResourceLink(block.to_json())),
            _ => Self::Unknown(UnknownContent(block.clone())),
        }
    }
}

impl TextContent {
    /// Returns the text; empty if the block has none.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.0 {
            ContentBlock::Text(text) => Cow::Borrowed(text),
            block @ ContentBlock::Other { .. } => {
                Cow::Owned(block.text().map(String::from).unwrap_or_default())
            }
        }
    }
}

impl MediaContent {
    /// Returns the MIME type.
    pub fn mime_type(&self) -> Option<String> {
        self.0.field("mimeType")
    }

    /// Returns the data in Base64, as most model APIs take it.
    pub fn base64(&self) -> Option<String> {
        self.0.field("data")
    }

    /// Decodes the data; `None` if it is missing or not Base64.
    pub fn data(&self) -> Option<Vec<u8>> {
        STANDARD.decode(self.base64()?).ok()
    }
}

impl EmbeddedResource {
    fn member(&self, name: &str) -> Option<String> {
        self.0.get("resource")?.field(name)
    }

    /// Returns the resource's URI.
    pub fn uri(&self) -> Option<String> {
        self.member("uri")
    }

    /// Returns the MIME type.
    pub fn mime_type(&self) -> Option<String> {
        self.member("mimeType")
    }

    /// Returns the text of a text resource.
    pub fn text(&self) -> Option<String> {
        self.member("text")
    }

    /// Decodes the data of a binary resource; `None` if it is missing or not Base64.
    pub fn data(&self) -> Option<Vec<u8>> {
        STANDARD.decode(self.member("blob")?).ok()
    }
}

impl ResourceLink {
    /// Returns the resource's URI.
    pub fn uri(&self) -> Option<String> {
        self.0.field("uri")
    }

    /// Returns the resource's name.
    pub fn name(&self) -> Option<String> {
        self.0.field("name")
    }

    /// Returns the description.
    pub fn description(&self) -> Option<String> {
        self.0.field("description")
    }

    /// Returns the MIME type.
    pub fn mime_type(&self) -> Option<String> {
        self.0.field("mimeType")
    }
}

impl UnknownContent {
    /// Returns the block's `type`; empty if it has none.
    pub fn kind(&self) -> &str {
        self.0.kind()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trunkline_wire::mcp::CallToolResult;

    use super::*;
    use crate::result::CallOutput;

    #[test]
    fn every_block_has_its_type_and_its_raw_json() {
        let blocks = json!([
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b", "annotations": {}},
            {"type": "image", "mimeType": "image/png", "data": "AAEC"},
            {"type": "audio", "mimeType": "audio/wav", "data": "not base64!"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "t", "mimeType": "m"}},
            {"type": "resource", "resource": {"uri": "a:c", "blob": "AAEC"}},
            {"type": "resource_link", "uri": "a:d", "name": "n"},
            {"type": "hologram", "x": 1},
            7,
        ]);
        let result = Json::from(json!({ "content": blocks }));
        let output = CallOutput::from(CallToolResult::from_json(&result).unwrap().1);
        let mut seen = Vec::new();
        for (at, content) in output.content().enumerate() {
            assert_eq!(content.raw().to_value().unwrap(), blocks[at]);
            seen.push(match content {
                Content::Text(text) => format!("text {}", text.text()),
                Content::Image(image) => format!("image {:?}", image.data().unwrap()),
                Content::Audio(audio) => format!("audio {:?}", audio.data()),
                Content::Resource(resource) => format!(
                    "resource {} {:?} {:?}",
                    resource.uri().unwrap(),
                    resource.text(),
                    resource.data()
                ),
                Content::ResourceLink(link) => format!("link {}", link.name().unwrap()),
                Content::Unknown(unknown) => format!("unknown {:?}", unknown.kind()),
            });
        }
        assert_eq!(
            seen,
            [
                "text a",
                "text b",
                "image [0, 1, 2]",
                "audio None",
                "resource a:b Some(\"t\") None",
                "resource a:c None Some([0, 1, 2])",
                "link n",
                "unknown \"hologram\"",
                "unknown \"\"",
            ]
        );
    }
}
