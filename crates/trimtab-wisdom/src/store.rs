//! Where wisdom is kept: the trait every store implements. It moves bytes; what they say is FORMAT.md's.
//!
//! A **segment** is a text that one writer appends to and everyone reads. Wisdom is the union of all segments, and the
//! union minds neither order nor repetition. That is why so little is asked of a store: no transactions, no locks, no
//! order between writers. What is asked is checked by [`conformance`](crate::conformance).
//!
//! | asked | a directory | an object store | a database |
//! |---|---|---|---|
//! | append | one write in append mode | the writer holds its text and puts it again, segments are small | a row a write |
//! | is the writer alive | a lock | a lease the writer renews | an advisory lock, or a lease |
//! | replace | write, sync, then remove | put, then delete what still has its size | one transaction |
//!
//! Where storage answers later only (a browser), keep a [`Memory`](crate::Memory), answer from it, and write behind.

use std::fmt;
use std::io;

/// The size at which a writer starts its next segment. Compaction holds the text of one that it reads and of one that it writes.
pub const MAX_SEGMENT_BYTES: u64 = 4 * 1024 * 1024;

/// Something that keeps segments and blobs. Several processes may use one place at the same time, each through a store
/// of its own.
///
/// Names of segments and blobs consist of ASCII letters, digits, `-`, `_` and `.`, at most 128 of them: they can be
/// file names, object keys and URLs as they are. Keep them: then copying segments from one store to another merges.
///
/// An error of kind [`NotFound`](io::ErrorKind::NotFound) says that there is no such thing (now). Every other error becomes a
/// warning: what could not be written is kept in memory and tried again.
pub trait Store: fmt::Debug + Send + Sync {
    /// Where it is, as people know it: a path, an address. Only for messages.
    fn place(&self) -> String;

    /// What messages call something in it.
    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.place())
    }

    /// The names of all segments, in any order. Names that are none of a segment may be among them; they are ignored.
    /// `NotFound` if nothing was ever kept there.
    fn list(&self) -> io::Result<Vec<String>>;

    /// At most `most` bytes of a segment on from `from`; none where it has no more. A whole line that was read
    /// once does not change.
    fn read(&self, name: &str, from: u64, most: u64) -> io::Result<Part>;

    /// Starts a segment with that text and becomes its writer. No one sees it before all of the text is there and its
    /// writer counts as alive. A name that is in use is an error; names are drawn at random.
    fn create(&self, name: &str, text: &[u8]) -> io::Result<Box<dyn Writer>>;

    /// Puts the new segments (name and text) in place of the old ones and says how many of those are gone. Each new one is made when it is
    /// asked for: whoever puts one away before asking for the next holds one at a time.
    ///
    /// At every moment each text is there, old or new: the new ones appear whole, are as durable as the store can make
    /// them, and only then the old ones go. Dying in between is fine, it leaves both. An old one stays if its writer
    /// is alive, if its size is another than the one given, or if someone else has hold of it; should that leave none,
    /// nothing is written. An error leaves the old ones.
    fn replace(&self, old: &[Old], new: &mut dyn Iterator<Item = NewSegment>) -> io::Result<usize>;

    /// Gives a segment a name under which it is neither listed as a segment nor ever overwritten, and says which;
    /// [`read`](Store::read) finds it there. [`aside_name`] makes such names.
    fn set_aside(&self, name: &str) -> io::Result<String>;

    /// What was kept under that name.
    fn blob(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Keeps bytes under a name, in place of what was there. Readers see the old or the new, never a mixture, also with
    /// two writers.
    fn put_blob(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// The size at which a writer starts its next segment. Stores that put the whole segment again to append to it
    /// want a small one.
    fn segment_bytes(&self) -> u64 {
        MAX_SEGMENT_BYTES
    }
}

/// The writer of one segment. It is alive until it is dropped or its process ends, however that happens.
pub trait Writer: fmt::Debug + Send {
    /// Appends whole lines. When it returns, they survive the end of this process. A reader may see a part of them,
    /// which it leaves until the rest is there. After an error nothing of them may count: what is left of them must
    /// cost no line that is appended later.
    fn append(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Whether the segment is still there. Asked at every flush, so this is also when to renew a lease. After a `false`
    /// everything this process knows is written to a segment of another name.
    fn is_in_place(&mut self) -> bool {
        true
    }
}

/// A part of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What was asked for.
    pub bytes: Vec<u8>,
    /// The size of the whole segment.
    pub size: u64,
    /// Whether the segment's writer may still append: found out *before* the bytes were read, so that what is read of
    /// a dead one is all there will ever be. Where that is not certain, say alive.
    pub alive: bool,
}

/// A segment that is to be written: its name and its text.
pub type NewSegment = (String, Vec<u8>);

/// A segment that is to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Old {
    /// Its name.
    pub name: String,
    /// Its size when it was read.
    pub size: u64,
    /// Not everything in it could be read: set it aside instead of removing it.
    pub set_aside: bool,
}

/// The name of a segment that was set aside for the `number`th time.
pub fn aside_name(name: &str, number: usize) -> String {
    format!("{name}.damaged-{number}")
}
