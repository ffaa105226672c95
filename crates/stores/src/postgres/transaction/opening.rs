//! Opening: a transaction and what is asked first in it, as one message.
//!
//! A driver asks for an answer to each statement that it sends, so that `BEGIN` and two questions
//! are three answers, and each of them wakes somebody. As one text they are one answer. The
//! statements are prepared under names of their own, since a text is planned anew each time.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::OnceCell;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::fault::Fault;
use super::session::{Call, Cells, Value};
use super::statements::{Sql, Statement};

/// The statements of one connection that are prepared by name, each when it is first used.
#[derive(Debug, Default)]
pub(super) struct Opening {
    named: [OnceCell<Arc<str>>; Sql::COUNT],
    /// Whether this way is of no use here: names are refused or forgotten, as by a pooler that
    /// changes the connection behind this one, or answers are written in a way that is not read
    /// here.
    is_closed: AtomicBool,
}

/// The rows of the calls, or none if they have to be sent one by one.
type Opened = Result<Option<Vec<Option<Cells>>>, Fault>;

// === impl Opening ===

impl Opening {
    /// Begins a transaction and sends `calls` in it. Returns `None`, with nothing begun, where
    /// that cannot be done in one.
    pub(super) async fn begin(&self, client: &Client, calls: &[Call<'_>]) -> Opened {
        if self.is_closed.load(Ordering::Relaxed) || !self.prepare(client, calls).await? {
            return Ok(None);
        }
        let messages = client.simple_query(&text(calls)).await?;
        let rows = rows(messages);
        if rows.is_none() {
            self.close();
            client.batch_execute("ROLLBACK").await?;
        }
        Ok(rows)
    }

    /// Does not go this way again.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Prepares what is not prepared yet. Returns whether all of it is there by its name.
    async fn prepare(&self, client: &Client, calls: &[Call<'_>]) -> Result<bool, Fault> {
        for Call { statement, .. } in calls {
            let named = &self.named[statement.at];
            let named = named.get_or_try_init(|| prepare(client, statement)).await;
            let named = match named.map_err(Fault::from) {
                Ok(named) => named,
                Err(gone @ Fault::Gone(_)) => return Err(gone),
                // What is wrong with the statement itself is said the other way, too.
                Err(_) => {
                    self.close();
                    return Ok(false);
                }
            };
            // Another name is that of other tables, which came first.
            if *named != statement.name {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Prepares a statement and returns its name.
async fn prepare(
    client: &Client,
    statement: &Statement,
) -> Result<Arc<str>, tokio_postgres::Error> {
    let Statement { text, name, .. } = statement;
    match client
        .batch_execute(&format!("PREPARE {name} AS {text}"))
        .await
    {
        // The same text, since the name tells of it: somebody had this connection before.
        Err(error) if error.code() == Some(&SqlState::DUPLICATE_PSTATEMENT) => {}
        prepared => prepared?,
    }
    Ok(Arc::clone(name))
}

/// The whole message.
fn text(calls: &[Call<'_>]) -> String {
    let mut text = String::from("BEGIN");
    for Call { statement, values } in calls {
        text += ";EXECUTE ";
        text += &statement.name;
        let mut before = '(';
        for value in *values {
            text.push(before);
            literal(&mut text, value);
            before = ',';
        }
        if !values.is_empty() {
            text.push(')');
        }
    }
    text
}

/// Writes a value so that no server takes any of it for more than a value.
fn literal(text: &mut String, value: &Value<'_>) {
    let _ = match value {
        Value::Int(number) => write!(text, "{number}"),
        Value::Bytes(bytes) => write!(text, "E'\\\\x{}'", Hex(bytes)),
        Value::Text(of) => write!(text, "convert_from(E'\\\\x{}','UTF8')", Hex(of.as_bytes())),
    };
}

/// Bytes as two digits each.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| {
            f.write_char(char::from(DIGITS[usize::from(byte >> 4)]))?;
            f.write_char(char::from(DIGITS[usize::from(byte & 15)]))
        })
    }
}

/// The row of each statement behind the first, or `None` if one of them cannot be read.
fn rows(messages: Vec<SimpleQueryMessage>) -> Option<Vec<Option<Cells>>> {
    let mut rows = Vec::new();
    let mut row = None;
    let mut has_begun = false;
    for message in messages {
        match message {
            SimpleQueryMessage::Row(it) => row = Some(cells(&it)?),
            SimpleQueryMessage::CommandComplete(_) if has_begun => rows.push(row.take()),
            SimpleQueryMessage::CommandComplete(_) => has_begun = true,
            _ => {}
        }
    }
    Some(rows)
}

fn cells(row: &SimpleQueryRow) -> Option<Cells> {
    let record = match row.try_get(3).ok()? {
        Some(text) => Some(bytes(text)?),
        None => None,
    };
    let number = |at| row.try_get(at).ok()??.parse().ok();
    Some(Cells {
        yes: row.try_get(0).ok()?? == "t",
        number: number(1)?,
        written: number(2),
        record,
        began: number(4)?,
    })
}

/// Reads bytes that are written as digits, as they are unless somebody has set it otherwise.
fn bytes(text: &str) -> Option<Bytes> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let mut bytes = Vec::with_capacity(pairs.len());
    for [high, low] in pairs {
        let (high, low) = (VALUES[usize::from(*high)], VALUES[usize::from(*low)]);
        if (high | low) > 0xf {
            return None;
        }
        bytes.push(high << 4 | low);
    }
    Some(bytes.into())
}

/// What each byte is worth as a digit; more than 15 if it is none. Answers may be long.
const VALUES: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: Value<'_>) -> String {
        let mut text = String::new();
        literal(&mut text, &value);
        text
    }

    #[test]
    fn a_value_is_written_in_digits_whatever_is_in_it() {
        assert_eq!(written(Value::Int(-7)), "-7");
        assert_eq!(written(Value::Bytes(&[0, 0x5c, 0xff])), r"E'\\x005cff'");
        let text = written(Value::Text("'); DROP TABLE records; --"));
        assert!(!text[15..].contains(['(', ';', '-']), "{text}");
    }

    #[test]
    fn bytes_are_read_as_they_are_written() {
        assert_eq!(bytes(r"\x00ff5c").as_deref(), Some(&[0, 0xff, 0x5c][..]));
        assert_eq!(bytes(r"\x").as_deref(), Some(&[][..]));
        for text in [r"\x0", r"\x0g", "plain", r"\\000"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
