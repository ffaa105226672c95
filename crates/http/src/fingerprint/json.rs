//! JSON by value: one spelling for all spellings of a document.
//!
//! A walk over the bytes, because a tree of parsed values would round large numbers and keep the
//! last of two members with one name. The result is for hashing only: every value begins with
//! what it is, and everything of varying length has its length before it.

use std::ops::Range;

use super::pointer::{Pointer, index};
use super::put;

mod number;
mod text;

/// How deep containers may stand in each other: what most parsers allow.
const DEPTH_MAX: usize = 128;

/// From how many bytes on a container stands as its digest, so that sorting the members around it
/// moves 33 bytes instead of all of it, at every level.
const DIGEST_OVER: usize = 1024;

/// What a value begins with.
#[derive(Clone, Copy)]
enum Tag {
    Null = 1,
    False = 2,
    True = 3,
    Number = 4,
    Text = 5,
    Array = 6,
    Object = 7,
    End = 8,
    Digest = 9,
    Absent = 10,
}

/// What stands where a pointer points, as far as a key can be made of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scalar<'a> {
    /// Nothing.
    Absent,
    /// `null`.
    Null,
    /// A string, unescaped.
    Text(String),
    /// A number without point and exponent, as written.
    Integer(&'a str),
    /// Anything else.
    Other,
}

/// Which parts of a document are watched for, and why.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// They are left out.
    Leave,
    /// They are kept beside the rest.
    Keep,
}

/// A walk over a document that writes it in its one spelling.
struct Walk<'a> {
    /// The document, which is UTF-8.
    text: &'a [u8],
    at: usize,
    /// What was written so far.
    out: Vec<u8>,
    /// The members of the objects that are still open, innermost last.
    members: Vec<Member>,
    /// Room for putting members in order.
    scratch: Vec<u8>,
    purpose: Purpose,
    /// What was found at each pointer that is watched.
    found: Vec<Option<Found>>,
}

/// Where a member stands in the output: its name from `start`, its value from `name_end`.
#[derive(Clone, Copy)]
struct Member {
    start: usize,
    name_end: usize,
    end: usize,
}

/// A pointer that led here so far, with the rest of its way.
#[derive(Clone, Copy)]
struct Watched<'a> {
    which: usize,
    rest: &'a [Box<str>],
}

/// A part that was watched for.
struct Found {
    /// Where it stands in the document.
    source: Range<usize>,
    /// Its one spelling.
    spelling: Vec<u8>,
}

/// Returns the one spelling of a document without what `ignore` points to; or, if `only` names
/// something, of that alone. `None` if it is not JSON that everybody reads alike: not UTF-8, two
/// members of one name, half a surrogate pair, too deep, something after the end.
pub(crate) fn canonical(body: &[u8], ignore: &[Pointer], only: &[Pointer]) -> Option<Vec<u8>> {
    if only.is_empty() {
        return Some(Walk::over(body, ignore, Purpose::Leave)?.out);
    }
    let found = Walk::over(body, only, Purpose::Keep)?.found;
    let mut parts: Vec<_> = only.iter().map(Pointer::as_str).zip(found).collect();
    parts.sort_by_key(|(pointer, _)| *pointer);
    parts.dedup_by_key(|(pointer, _)| *pointer);
    let mut out = Vec::new();
    for (pointer, found) in parts {
        put(&mut out, pointer.as_bytes());
        match found {
            Some(found) => out.extend(found.spelling),
            None => out.push(Tag::Absent as u8),
        }
    }
    Some(out)
}

/// Returns the one spelling of what stands at each pointer, nothing where that is nothing or `null`;
/// or `None` if [`canonical`] would refuse the document.
pub(crate) fn pick(body: &[u8], pointers: &[Pointer]) -> Option<Vec<Option<Vec<u8>>>> {
    let found = Walk::over(body, pointers, Purpose::Keep)?.found.into_iter();
    let spelled = found.map(|found| found.map(|found| found.spelling));
    let is_null = |spelling: &Vec<u8>| *spelling == [Tag::Null as u8];
    Some(
        spelled
            .map(|found| found.filter(|it| !is_null(it)))
            .collect(),
    )
}

/// Returns the one spelling of a string with this content.
pub(crate) fn text(content: &str) -> Vec<u8> {
    let mut out = vec![Tag::Text as u8];
    put(&mut out, content.as_bytes());
    out
}

/// Returns the spelling of a whole number in the place of that of a text which spells it, in the
/// one way that does.
pub(crate) fn whole(spelling: Vec<u8>) -> Vec<u8> {
    let is_text = spelling.first() == Some(&(Tag::Text as u8));
    let content = spelling.get(text::HEAD_LEN..).unwrap_or_default();
    let digits = content.strip_prefix(b"-").unwrap_or(content);
    let is_plain = matches!(digits, [b'0'] | [b'1'..=b'9', ..]);
    if !is_text || !is_plain || !digits.iter().all(u8::is_ascii_digit) {
        return spelling;
    }
    let found = Pointer::parse("").ok().and_then(|all| {
        let mut found = pick(content, std::slice::from_ref(&all))?;
        found.pop().flatten()
    });
    found.unwrap_or(spelling)
}

/// Returns what stands at `pointer` in a document, or `None` if [`canonical`] would refuse it.
pub(crate) fn find<'a>(body: &'a [u8], pointer: &Pointer) -> Option<Scalar<'a>> {
    let mut walk = Walk::over(body, std::slice::from_ref(pointer), Purpose::Keep)?;
    let Some(Found { source, spelling }) = walk.found.pop().flatten() else {
        return Some(Scalar::Absent);
    };
    let source = str::from_utf8(&body[source]).expect("the walk read text");
    Some(match spelling[0] {
        tag if tag == Tag::Null as u8 => Scalar::Null,
        tag if tag == Tag::Text as u8 => {
            let (_, content) = spelling.split_at(text::HEAD_LEN);
            Scalar::Text(String::from_utf8(content.to_vec()).expect("unescaped text is text"))
        }
        tag if tag == Tag::Number as u8 && !source.contains(['.', 'e', 'E']) => {
            Scalar::Integer(source)
        }
        _ => Scalar::Other,
    })
}

// === impl Walk ===

impl<'a> Walk<'a> {
    /// Walks over a whole document.
    fn over(body: &'a [u8], pointers: &'a [Pointer], purpose: Purpose) -> Option<Self> {
        str::from_utf8(body).ok()?;
        let mut walk = Self {
            text: body,
            at: 0,
            out: Vec::with_capacity(body.len().min(64 << 10) + 64),
            members: Vec::new(),
            scratch: Vec::new(),
            purpose,
            found: pointers.iter().map(|_| None).collect(),
        };
        let watched: Vec<Watched<'a>> = pointers
            .iter()
            .enumerate()
            .map(|(which, pointer)| Watched {
                which,
                rest: pointer.tokens(),
            })
            .collect();
        walk.space();
        walk.value(0, &watched)?;
        walk.space();
        if walk.leaves(&watched) {
            walk.out.clear();
        }
        (walk.at == body.len()).then_some(walk)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Steps over `byte` if it comes next.
    fn skip(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
        next
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Steps over a value and writes it.
    fn value(&mut self, depth: usize, watched: &[Watched<'a>]) -> Option<()> {
        let (source, start) = (self.at, self.out.len());
        match self.peek()? {
            b'{' => self.container(depth, start, |walk| walk.object(depth, watched))?,
            b'[' => self.container(depth, start, |walk| walk.array(depth, watched))?,
            b'"' => self.string()?,
            b'n' => self.word(b"null", Tag::Null)?,
            b't' => self.word(b"true", Tag::True)?,
            b'f' => self.word(b"false", Tag::False)?,
            _ => self.number()?,
        }
        if self.purpose == Purpose::Keep {
            for arrived in watched.iter().filter(|watched| watched.rest.is_empty()) {
                self.found[arrived.which] = Some(Found {
                    source: source..self.at,
                    spelling: self.out[start..].to_vec(),
                });
            }
        }
        Some(())
    }

    fn word(&mut self, word: &[u8], tag: Tag) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            self.out.push(tag as u8);
        })
    }

    fn string(&mut self) -> Option<()> {
        self.out.push(Tag::Text as u8);
        self.at = text::unescape(self.text, self.at, &mut self.out)?;
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        self.out.push(Tag::Number as u8);
        self.at = number::by_value(self.text, self.at, &mut self.out)?;
        Some(())
    }

    /// Steps into a container and out again, and writes a long one as its digest.
    fn container(
        &mut self,
        depth: usize,
        start: usize,
        inside: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        if depth == DEPTH_MAX {
            return None;
        }
        self.at += 1;
        self.space();
        inside(self)?;
        self.out.push(Tag::End as u8);
        if self.out.len() - start > DIGEST_OVER {
            let digest = blake3::hash(&self.out[start..]);
            self.out.truncate(start);
            self.out.push(Tag::Digest as u8);
            self.out.extend(digest.as_bytes());
        }
        Some(())
    }

    fn array(&mut self, depth: usize, watched: &[Watched<'a>]) -> Option<()> {
        self.out.push(Tag::Array as u8);
        if self.skip(b']') {
            return Some(());
        }
        for place in 0.. {
            let start = self.out.len();
            let inner = narrowed(watched, |token| index(token) == Some(place));
            self.value(depth + 1, &inner)?;
            if self.leaves(&inner) {
                self.out.truncate(start);
            }
            self.space();
            if self.skip(b']') {
                break;
            }
            self.comma()?;
        }
        Some(())
    }

    fn object(&mut self, depth: usize, watched: &[Watched<'a>]) -> Option<()> {
        self.out.push(Tag::Object as u8);
        let (start, base) = (self.out.len(), self.members.len());
        if self.skip(b'}') {
            return Some(());
        }
        loop {
            let member = self.member(depth, watched)?;
            self.members.push(member);
            self.space();
            if self.skip(b'}') {
                break;
            }
            self.comma()?;
        }
        self.order(start, base)
    }

    fn member(&mut self, depth: usize, watched: &[Watched<'a>]) -> Option<Member> {
        let start = self.out.len();
        if self.peek() != Some(b'"') {
            return None;
        }
        self.string()?;
        let name_end = self.out.len();
        self.space();
        if !self.skip(b':') {
            return None;
        }
        self.space();
        let name = &self.out[start + text::HEAD_LEN..];
        let inner = narrowed(watched, |token| token.as_bytes() == name);
        self.value(depth + 1, &inner)?;
        if self.leaves(&inner) {
            self.out.truncate(name_end);
        }
        Some(Member {
            start,
            name_end,
            end: self.out.len(),
        })
    }

    fn comma(&mut self) -> Option<()> {
        let comma = self.skip(b',');
        self.space();
        comma.then_some(())
    }

    /// Whether what was just written is to be left out.
    fn leaves(&self, watched: &[Watched<'a>]) -> bool {
        self.purpose == Purpose::Leave && watched.iter().any(|watched| watched.rest.is_empty())
    }

    /// Puts the members from `base` on, written from `start` on, in the order of their names,
    /// without those that are left out; `None` if two have one name.
    fn order(&mut self, start: usize, base: usize) -> Option<()> {
        let Self {
            out,
            members,
            scratch,
            ..
        } = self;
        let name = |member: &Member| &out[member.start + text::HEAD_LEN..member.name_end];
        let fresh = &mut members[base..];
        let in_order = |fresh: &[Member]| fresh.is_sorted_by(|one, two| name(one) < name(two));
        let sorted = in_order(fresh);
        if !sorted {
            fresh.sort_unstable_by(|one, two| name(one).cmp(name(two)));
            // Still not in order: two names are equal, and readers differ in which they believe.
            if !in_order(fresh) {
                return None;
            }
        }
        // Only a member that is left out has no value.
        let left_out = |member: &Member| member.end == member.name_end;
        if !sorted || fresh.iter().any(left_out) {
            scratch.clear();
            for member in fresh.iter().filter(|member| !left_out(member)) {
                scratch.extend_from_slice(&out[member.start..member.end]);
            }
            out.truncate(start);
            out.extend_from_slice(scratch);
        }
        members.truncate(base);
        Some(())
    }
}

/// The pointers that lead on through a member or element, one step further.
fn narrowed<'a>(watched: &[Watched<'a>], leads: impl Fn(&str) -> bool) -> Vec<Watched<'a>> {
    watched
        .iter()
        .filter_map(|watched| match watched.rest {
            [next, rest @ ..] if leads(next) => Some(Watched { rest, ..*watched }),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;
