//! Reading and writing the fields of a record, with every length checked.

use std::time::Duration;

use bytes::Bytes;

use super::Error;
use crate::Fence;
use crate::bugs::{Bug, seeded};
use crate::clock::micros;

const CHECKSUM_LEN: usize = 4;

pub(super) struct Writer(Vec<u8>);

pub(super) struct Reader<'a> {
    /// The fields, without the checksum.
    bytes: &'a [u8],
    /// The same memory as `bytes`, to be shared with bodies; `None` when only a head is read.
    shared: Option<&'a Bytes>,
    at: usize,
}

// === impl Writer ===

impl Writer {
    pub(super) fn with_capacity(len: usize) -> Self {
        Self(Vec::with_capacity(len))
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    pub(super) fn span(&mut self, span: Duration) {
        self.u64(micros(span)); // the longest one stands for endless
    }

    pub(super) fn fence(&mut self, fence: Fence) {
        self.raw(&fence.bits().to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        let len = u16::try_from(text.len()).expect("texts are limited where they are made");
        self.u16(len);
        self.raw(text.as_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).expect("bodies are limited where they are made");
        self.u32(len);
        self.raw(bytes);
    }

    pub(super) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.u8(0),
            Some(value) => {
                self.u8(1);
                write(self, value);
            }
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let checksum = crc32fast::hash(&self.0);
        self.u32(checksum);
        self.0
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Returns a reader of all fields, once the checksum is seen to match.
    pub(super) fn checked(shared: &'a Bytes) -> Result<Self, Error> {
        let Some((bytes, checksum)) = shared.split_last_chunk::<CHECKSUM_LEN>() else {
            return Err(Error::Cut { at: shared.len() });
        };
        let matches = crc32fast::hash(bytes) == u32::from_le_bytes(*checksum);
        if !matches && !seeded(Bug::ChecksumIgnored) {
            return Err(Error::Checksum);
        }
        Ok(Self {
            bytes,
            shared: Some(shared),
            at: 0,
        })
    }

    /// Returns a reader that looks at no checksum and can lend no bodies.
    pub(super) fn unchecked(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            shared: None,
            at: 0,
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let cut = Error::Cut {
            at: self.bytes.len(),
        };
        let end = self.at.checked_add(len).ok_or(cut.clone())?;
        let taken = self.bytes.get(self.at..end).ok_or(cut)?;
        self.at = end;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("as many bytes were taken"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn span(&mut self) -> Result<Duration, Error> {
        Ok(match self.u64()? {
            u64::MAX => Duration::MAX,
            micros => Duration::from_micros(micros),
        })
    }

    pub(super) fn fence(&mut self) -> Result<Fence, Error> {
        self.array().map(u128::from_le_bytes).map(Fence::from_bits)
    }

    pub(super) fn text(&mut self) -> Result<Box<str>, Error> {
        let len = self.u16()?.into();
        let text = std::str::from_utf8(self.take(len)?);
        text.map(Into::into)
            .map_err(|_| Error::Invalid { field: "text" })
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, Error> {
        let len = self.u32()? as usize;
        let start = self.at;
        let taken = self.take(len)?;
        Ok(match self.shared {
            Some(shared) => shared.slice(start..start + len),
            None => Bytes::copy_from_slice(taken),
        })
    }

    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match self.u8()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(Error::Invalid { field: "option" }),
        }
    }

    /// Succeeds if nothing is left over.
    pub(super) fn end(&self) -> Result<(), Error> {
        match self.at == self.bytes.len() {
            true => Ok(()),
            false => Err(Error::Invalid { field: "length" }),
        }
    }
}
