//! Crash images: what a power loss may leave of a store's folder, and what must still be in it.
//!
//! A real process works on a real folder while a small library (`shim/record.c`) notes every call
//! that changes files, in one order, with what the process acknowledged in between. Afterwards
//! the power is cut anywhere in that [`Log`], as often as there is time: a [`Disk`] knows what was
//! durable by then, a seed decides what else reached the disk, and the image is opened by the real
//! store and held to its [`Promise`].
//!
//! # What is durable
//!
//! - The bytes and the size of a file as they were when an fsync or fdatasync of it began that
//!   ended before the cut.
//! - The names in a folder as they were when such an fsync of the folder began. A rename is one
//!   step: durable as a whole once either folder is synced, lost or kept as a whole before.
//! - The name under which a file was created, once the file itself is synced. POSIX does not say
//!   so; ext4, XFS and btrfs do so, and the database relies on it for its blobs.
//!
//! Of all else anything may be there: none of it, all of it, any writes without those before
//! them, writes torn at sectors of 512 bytes, a new size over bytes that never came, renames and
//! removals in the order they were made or in any other. A sector is written as a whole or not.
//!
//! Such an image has to open, with everything that was acknowledged. Two more classes may be
//! refused by name instead, but never lack anything silently: unsynced sectors that came out
//! garbled, which nobody can tell from rot in what was acknowledged, and [damage](Ailment) done
//! to what was synced.

mod damage;
mod disk;
mod image;
mod log;
mod promise;
mod sessions;
#[cfg(test)]
mod tests;
mod trial;
mod verify;
mod workload;

pub use damage::Ailment;
pub use disk::Disk;
pub use image::{Fate, Image, Workshop};
pub use log::{Change, Log, NotALog};
pub use promise::{Promise, Version};
pub use sessions::{Recorder, compare};
pub use trial::{Seen, Trial, Violation};
pub use workload::{Workload, work};

/// The part of a file that a disk writes as a whole.
pub const SECTOR: usize = 512;
