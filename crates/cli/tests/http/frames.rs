//! Frames of HTTP/2, written and read by hand, for what no client would send.

use onceward_rig::gateway::Wire;

/// The kinds that are used here.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
const SETTINGS: u8 = 4;
pub(crate) const GO_AWAY: u8 = 7;

/// Nothing follows on this stream.
pub(crate) const END_STREAM: u8 = 1;
/// Nothing follows of this head.
const END_HEADERS: u8 = 4;

/// Why a stream is reset: nobody wants it any more.
pub(crate) const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// A frame that came.
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// What a connection begins with.
pub(crate) fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes
}

/// One frame: its length, kind, flags and stream, then its payload. A head is always whole.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let flags = match kind {
        HEADERS => flags | END_HEADERS,
        _ => flags,
    };
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = len[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The head of a `POST` with these fields.
pub(crate) fn head(path: &str, fields: &[(&str, &[u8])]) -> Vec<u8> {
    // Method and scheme are 3 and 6 of the table that everybody has, path and authority are its
    // names 4 and 1.
    let mut block = vec![0x83, 0x86, 0x04];
    block.extend(text(path.as_bytes()));
    block.push(0x01);
    block.extend(text(b"shop.example"));
    for (name, value) in fields {
        block.push(0x00);
        block.extend(text(name.as_bytes()));
        block.extend(text(value));
    }
    block
}

/// Text with its length, which is below 127.
fn text(text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(text.len()).unwrap()];
    assert!(bytes[0] < 127, "a longer length is written in another way");
    bytes.extend(text);
    bytes
}

/// Reads a frame, or nothing if the connection ends.
pub(crate) async fn read(wire: &mut Wire) -> Option<Frame> {
    let header = wire.some(9).await;
    let header: [u8; 9] = header.try_into().ok()?;
    let [top, high, low, kind, flags, a, b, c, d] = header;
    let len = u32::from_be_bytes([0, top, high, low]);
    let payload = wire.some(usize::try_from(len).unwrap()).await;
    Some(Frame {
        kind,
        flags,
        stream: u32::from_be_bytes([a, b, c, d]),
        payload,
    })
}
