use bytes::Bytes;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;

use super::{Error, HEAD_LEN, Head, VERSION, decode, encode, head};
use crate::outcome::Body;
use crate::testing::records::{self, strategy};
use crate::{Outcome, Record, State, Timestamp};

mod fixtures;

/// Where the length of the tenant's name stands: right after the fields of fixed length, in a
/// record with a mark.
const TENANT_AT: usize = HEAD_LEN + 1 + 17 + 16 + 4 + 8 + 8 + 8 + 2 + 32;

const CHECKSUM_LEN: usize = 4;

proptest! {
    #[test]
    fn every_record_comes_back_as_it_was(record in strategy::record()) {
        let bytes = Bytes::from(encode(&record));
        let read = decode(&bytes, record.written);
        prop_assert_eq!(read, Ok(record));
    }

    #[test]
    fn the_stamp_is_no_part_of_the_bytes(record in strategy::record()) {
        let stamped = Record { written: Timestamp::NEVER, ..record.clone() };
        prop_assert_eq!(encode(&stamped), encode(&record));
    }

    #[test]
    fn the_head_tells_what_the_record_says(record in strategy::record()) {
        let bytes = encode(&record);
        let told = Head {
            state: record.state.name(),
            fence: record.fence,
            due_after: record.due_after(),
        };
        prop_assert_eq!(head(&bytes), Ok(told));
        prop_assert_eq!(head(&bytes[..HEAD_LEN]), Ok(told));
    }

    #[test]
    fn a_flipped_bit_anywhere_is_refused(record in strategy::record(), at in any::<Index>()) {
        let mut bytes = encode(&record);
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(decode(&bytes.into(), record.written).is_err());
    }

    #[test]
    fn a_record_cut_off_anywhere_is_refused(record in strategy::record(), at in any::<Index>()) {
        let bytes = Bytes::from(encode(&record));
        let cut = bytes.slice(..at.index(bytes.len()));
        prop_assert!(decode(&cut, record.written).is_err());
    }

    #[test]
    fn any_bytes_are_refused_and_do_no_harm(bytes in any::<Vec<u8>>()) {
        prop_assert!(decode(&bytes.into(), Timestamp::ZERO).is_err());
    }

    #[test]
    fn fields_of_any_value_do_no_harm(
        record in strategy::record(),
        at in any::<Index>(),
        bytes in any::<[u8; 4]>(),
    ) {
        let mut fields = fields_of(&record);
        let at = at.index(fields.len());
        for (field, byte) in fields[at..].iter_mut().zip(bytes) {
            *field = byte;
        }
        // Whether it can be read depends on the field; what counts is that this returns.
        let _ = decode(&sealed(fields), record.written);
    }
}

#[test]
fn every_flipped_bit_of_every_fixture_is_refused() {
    for (name, record) in fixtures::records() {
        let bytes = encode(&record);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = decode(&bytes.into(), record.written);
            assert!(read.is_err(), "bit {bit} of {name}");
        }
    }
}

#[test]
fn every_fixture_cut_off_anywhere_is_refused() {
    for (name, record) in fixtures::records() {
        let bytes = Bytes::from(encode(&record));
        for len in 0..bytes.len() {
            let read = decode(&bytes.slice(..len), record.written);
            assert!(read.is_err(), "{len} bytes of {name}");
        }
    }
}

/// As a writer that breaks off within a record would do it: the checksum is right.
#[test]
fn fields_that_end_anywhere_are_refused() {
    for (name, record) in fixtures::records() {
        let fields = fields_of(&record);
        for len in HEAD_LEN..fields.len() {
            let read = decode(&sealed(fields[..len].to_vec()), record.written);
            assert!(matches!(read, Err(Error::Cut { .. })), "{len} of {name}");
        }
    }
}

#[test]
fn a_newer_version_is_called_newer_whatever_comes_after_it() {
    let record = records::completed(records::LONG);
    for found in VERSION + 1..=u8::MAX {
        let mut fields = fields_of(&record);
        fields[0] = found;
        let newer = Err(Error::Newer { found });
        assert_eq!(decode(&sealed(fields), record.written), newer);
        assert_eq!(decode(&vec![found].into(), record.written), newer);
        assert_eq!(head(&[found]), Err(Error::Newer { found }));
    }
}

#[test]
fn version_0_was_never_written() {
    let record = records::completed(records::LONG);
    let mut fields = fields_of(&record);
    fields[0] = 0;
    let invalid = Err(Error::Invalid { field: "version" });
    assert_eq!(decode(&sealed(fields), record.written), invalid);
}

#[test]
fn bytes_left_over_are_refused() {
    for (name, record) in fixtures::records() {
        let mut after = encode(&record);
        after.push(0);
        let read = decode(&after.into(), record.written);
        assert_eq!(read, Err(Error::Checksum), "{name}");

        let mut before = fields_of(&record);
        before.push(0);
        let read = decode(&sealed(before), record.written);
        assert_eq!(read, Err(Error::Invalid { field: "length" }), "{name}");
    }
}

#[test]
fn values_that_no_version_writes_are_refused() {
    let record = Record {
        point: Some(Box::new(records::point(0))),
        audit: vec![records::note("")],
        ..records::completed(records::LONG)
    };
    let fields = fields_of(&record);
    let state_at = TENANT_AT + 2 + "tenant".len() + 2 + "operation".len();
    let body_at = state_at + 1 + 4 + "200".len();
    let point_at = body_at + 1 + 4 + "done".len();
    let note_at = point_at + 1 + 2 + "charged".len() + 4 + 1;
    for (at, field) in [
        (1, "state"),
        (HEAD_LEN, "effect"),
        (HEAD_LEN + 1, "option"),
        (state_at, "ending"),
        (body_at, "body"),
        (point_at, "option"),
        (note_at, "note"),
    ] {
        let mut fields = fields.clone();
        fields[at] = 0x77;
        let read = decode(&sealed(fields), record.written);
        assert_eq!(read, Err(Error::Invalid { field }), "byte {at}");
    }
}

#[test]
fn a_scope_without_a_name_and_a_text_that_is_none_are_refused() {
    let record = records::claimed(records::LONG);
    let fields = fields_of(&record);

    let mut nameless = fields.clone();
    nameless.drain(TENANT_AT..TENANT_AT + 2 + "tenant".len());
    nameless.splice(TENANT_AT..TENANT_AT, [0, 0]);
    let read = decode(&sealed(nameless), record.written);
    assert_eq!(read, Err(Error::Invalid { field: "scope" }));

    let mut no_text = fields;
    no_text[TENANT_AT + 2] = 0xff;
    let read = decode(&sealed(no_text), record.written);
    assert_eq!(read, Err(Error::Invalid { field: "text" }));
}

/// A length is compared with the bytes that are there before anything is made of it: a record
/// of a few bytes that claims gigabytes is cut off, at once.
#[test]
fn lengths_beyond_the_end_are_refused() {
    let record = records::completed(records::LONG);
    let fields = fields_of(&record);
    let head_at = TENANT_AT + 2 + "tenant".len() + 2 + "operation".len() + 1;
    let body_at = head_at + 4 + "200".len() + 1;
    let notes_at = fields.len() - 1;
    for (at, width) in [(TENANT_AT, 2), (head_at, 4), (body_at, 4), (notes_at, 1)] {
        let mut fields = fields.clone();
        fields[at..at + width].fill(0xff);
        let end = fields.len();
        let read = decode(&sealed(fields), record.written);
        assert_eq!(read, Err(Error::Cut { at: end }), "byte {at}");
    }
}

#[test]
fn bodies_share_the_memory_of_the_record() {
    let record = Record {
        state: State::Completed(Outcome::success(records::bytes(1 << 20)).with_head("200")),
        ..records::completed(records::LONG)
    };
    let bytes = Bytes::from(encode(&record));
    let read = decode(&bytes, record.written).unwrap();
    let Some(Body::Kept(body)) = read.outcome().map(|outcome| &outcome.body) else {
        panic!("the body is kept");
    };
    assert!(bytes.as_ptr_range().contains(&body.as_ptr()));
}

#[test]
fn errors_say_what_to_do() {
    let newer = Error::Newer { found: 7 }.to_string();
    assert!(
        newer.contains("version 7") && newer.contains("upgrade"),
        "{newer}"
    );
}

/// The bytes of a record without their checksum.
fn fields_of(record: &Record) -> Vec<u8> {
    let mut bytes = encode(record);
    bytes.truncate(bytes.len() - CHECKSUM_LEN);
    bytes
}

/// The fields with a checksum that matches them, whatever they are.
fn sealed(mut fields: Vec<u8>) -> Bytes {
    let checksum = crc32fast::hash(&fields);
    fields.extend(checksum.to_le_bytes());
    fields.into()
}
