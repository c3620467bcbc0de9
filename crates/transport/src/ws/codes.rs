//! Constants of the frame header (RFC 6455, 5.2).

pub(super) const CONTINUATION: u8 = 0;
pub(super) const TEXT: u8 = 1;
pub(super) const BINARY: u8 = 2;
pub(super) const CLOSE: u8 = 8;
pub(super) const PING: u8 = 9;
pub(super) const PONG: u8 = 10;

pub(super) const FINAL: u8 = 0x80;
pub(super) const MASKED: u8 = 0x80;

/// Length values that announce a longer length field.
pub(super) const TWO_BYTES: u8 = 126;
pub(super) const EIGHT_BYTES: u8 = 127;

/// The longest payload of a control frame.
pub(super) const CONTROL_LIMIT: usize = 125;
