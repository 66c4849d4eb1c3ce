//! What a client of the server sends, before and after it has logged in.

use saki_node::message::frontend::{Frontend, Opening, message_bytes, packet_bytes};

/// Bytes of a message at most, in this test.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A stream of messages: each is read or refused; no length reaches beyond what is there; lists have the
/// lengths that they state.
pub fn frontend(data: &[u8]) {
    if let Ok(Some(length)) = packet_bytes(data) {
        assert!(length <= data.len());
        let _ = Opening::read(&data[..length]);
    }
    let mut rest = data;
    while let Ok(Some(length)) = message_bytes(rest, MESSAGE_BYTES_MAX) {
        assert!((5..=rest.len()).contains(&length));
        let (message, after) = rest.split_at(length);
        rest = after;
        match Frontend::read(message) {
            Ok(Frontend::Bind { formats, values, results, .. }) => {
                assert_eq!(values.iter().count(), values.len());
                assert_eq!(formats.iter().count() + results.iter().count(), formats.len() + results.len());
                let bytes: usize = values.iter().flatten().map(<[u8]>::len).sum();
                assert!(bytes < length);
            }
            Ok(Frontend::Parse { types, sql, .. }) => assert!(types.iter().count() * 4 + sql.len() < length),
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 4) as u32;
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

/// Sound conversations.
pub fn frontend_seeds() -> Vec<Vec<u8>> {
    let parse = message(b'P', b"s\0SELECT $1, $2\0\0\x02\0\0\0\x17\0\0\0\x19");
    let bind = message(b'B', b"p\0s\0\0\x02\0\x01\0\0\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\x01\0\x01");
    let rest = [message(b'D', b"Pp\0"), message(b'E', b"p\0\0\0\0\x05"), message(b'C', b"Ss\0"), message(b'S', b"")];
    let copy = [message(b'd', b"1\ta\n"), message(b'c', b""), message(b'f', b"no\0"), message(b'H', b"")];
    let startup = b"\0\0\0\x21\0\x03\0\0user\0ada\0database\0test\0\0".to_vec();
    let cancel = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01abcd".to_vec();
    vec![
        [parse, bind, rest.concat()].concat(),
        copy.concat(),
        [message(b'Q', b"SELECT 1\0"), message(b'p', b"SCRAM-SHA-256\0\0\0\0\x02n,"), message(b'X', b"")].concat(),
        startup,
        cancel,
    ]
}
