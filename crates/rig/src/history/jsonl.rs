//! Histories as files: one JSON object per line, `{"event": {..}}` or its likes.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, Write},
};

use serde::{Deserialize, Serialize};

use super::{Event, Expectations, FinalRead, History, LedgerRow, ReadError};

/// One line, read.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Event(Event),
    Ledger(LedgerRow),
    Final(FinalRead),
    Faults(BTreeMap<String, u64>),
    Expect(Box<Expectations>),
}

/// One line, to be written.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum LineRef<'a> {
    Event(&'a Event),
    Ledger(&'a LedgerRow),
    Final(&'a FinalRead),
    Faults(&'a BTreeMap<String, u64>),
    Expect(&'a Expectations),
}

// === impl History ===

impl History {
    /// Reads a history, one JSON object per line; blank lines are skipped.
    ///
    /// The files of several processes may follow one another: faults add up, and the last line of
    /// expectations stands.
    pub fn read_jsonl(reader: impl BufRead) -> Result<Self, ReadError> {
        let mut history = Self::default();
        for (at, text) in reader.lines().enumerate() {
            let text = text.map_err(|source| ReadError::Io { line: at, source })?;
            if text.trim().is_empty() {
                continue;
            }
            let line = serde_json::from_str(&text).map_err(|error| ReadError::Line {
                line: at + 1,
                reason: error.to_string(),
            })?;
            history.add(line);
        }
        Ok(history)
    }

    /// Writes the history so that [`Self::read_jsonl`] reads it back.
    pub fn write_jsonl(&self, mut writer: impl Write) -> io::Result<()> {
        put(&mut writer, &LineRef::Expect(&self.expectations))?;
        put(&mut writer, &LineRef::Faults(&self.faults))?;
        for event in &self.events {
            put(&mut writer, &LineRef::Event(event))?;
        }
        for row in &self.ledger {
            put(&mut writer, &LineRef::Ledger(row))?;
        }
        for read in &self.finals {
            put(&mut writer, &LineRef::Final(read))?;
        }
        writer.flush()
    }

    fn add(&mut self, line: Line) {
        match line {
            Line::Event(event) => self.events.push(event),
            Line::Ledger(row) => self.ledger.push(row),
            Line::Final(read) => self.finals.push(read),
            Line::Faults(faults) => {
                for (kind, count) in faults {
                    *self.faults.entry(kind).or_default() += count;
                }
            }
            Line::Expect(expectations) => self.expectations = *expectations,
        }
    }
}

fn put(writer: &mut impl Write, line: &LineRef<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *writer, line)?;
    writer.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_reads_back_as_it_was_written() {
        let history = History::script(
            "expect retention 50
             expect canary a s3cret
             fault crash 2
             1-2  claim pay keyed -> granted 1f
             3    effect 1f receipt of 1f for pay
             4-5? complete 1f receipt
             6-7! renew 1f
             9    end completed receipt of 1f",
        )
        .unwrap();
        let mut bytes = Vec::new();
        history.write_jsonl(&mut bytes).unwrap();

        assert_eq!(History::read_jsonl(bytes.as_slice()).unwrap(), history);
    }

    #[test]
    fn a_line_has_the_names_of_the_format() {
        let history = History::script("3-4 renew ff @a/k").unwrap();
        let line = serde_json::to_string(&LineRef::Event(&history.events[0])).unwrap();

        let known = r#"{"event":{"mono_ns":3,"proc":0,"op_id":1,"type":"invoke","f":"heartbeat","tenant":"a","key":"k","nonce":"ff"}}"#;
        assert_eq!(line, known);
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let text = "{\"faults\":{}}\n\n{\"event\":{\"mono_ns\":true}}\n";
        let error = History::read_jsonl(text.as_bytes()).unwrap_err();

        assert!(error.to_string().starts_with("line 3: "), "{error}");
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let text = r#"{"ledger":{"tenant":"a","key":"k","t":1,"colour":"red"}}"#;
        let error = History::read_jsonl(text.as_bytes()).unwrap_err();

        assert!(error.to_string().contains("colour"), "{error}");
    }
}
