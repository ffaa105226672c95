//! One connection of a scripted service.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::{Act, Answer, Early, Manners, Seen, Shared};
use crate::gateway::message::{Framing, Head, Malformed};
use crate::gateway::reader::Reader;

/// Serves requests until either side has enough.
pub(super) async fn connection(
    stream: TcpStream,
    number: usize,
    shared: &Shared,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (from, mut to) = stream.into_split();
    let mut reader = Reader::new(from);
    while let Some(bytes) = reader.head(shared.manners == Manners::Lenient).await? {
        let (head, framing) = match read(&bytes, shared.manners) {
            Ok(read) => read,
            Err(malformed) => {
                let text = format!("{malformed}: {:?}", String::from_utf8_lossy(&bytes));
                shared.malformed.lock().push(text);
                to.write_all(b"HTTP/1.1 400 Malformed\r\nConnection: close\r\n\r\n")
                    .await?;
                return Ok(());
            }
        };
        match (shared.early)(&head.fields) {
            Early::Read => {}
            Early::Reset => return reset(reader, to),
            Early::ResetHalfway => {
                if let Framing::Length(length) = framing {
                    reader.some(usize::try_from(length / 2).unwrap_or(0)).await;
                }
                return reset(reader, to);
            }
        }
        let body = reader.body(framing).await;
        if !body.complete {
            return Ok(());
        }
        let seen = Seen {
            method: head.word(0).into(),
            target: head.word(1).into(),
            fields: head.fields,
            body: body.data,
            trailers: body.trailers,
            connection: number,
        };
        let act = (shared.script)(&seen);
        let is_head = seen.method == "HEAD";
        shared.note(seen);
        match act {
            Act::Answer(answer) => {
                write(&mut to, &answer, usize::MAX, is_head).await?;
                if answer.ends_connection() {
                    return Ok(());
                }
            }
            Act::Cut { answer, after } => return write(&mut to, &answer, after, is_head).await,
            Act::Vanish => return Ok(()),
            Act::Reset => return reset(reader, to),
            Act::Echo => return echo(reader, to).await,
        }
    }
    Ok(())
}

fn read(bytes: &[u8], manners: Manners) -> Result<(Head, Framing), Malformed> {
    match manners {
        Manners::Strict => {
            let head = Head::strict(bytes)?;
            let framing = head.framing_strict()?;
            Ok((head, framing))
        }
        Manners::Lenient => {
            let head = Head::lenient(bytes);
            let framing = head.framing_lenient();
            Ok((head, framing))
        }
    }
}

/// Writes the first `limit` bytes of an answer.
async fn write(
    to: &mut OwnedWriteHalf,
    answer: &Answer,
    limit: usize,
    is_head: bool,
) -> io::Result<()> {
    let mut left = limit;
    let mut paced = 0;
    for (at, (gate, piece)) in answer.pieces().into_iter().enumerate() {
        if is_head && at > 0 {
            break;
        }
        if let Some(gate) = gate {
            // The gate of the head is its own; those of the body count up.
            paced = if at == 0 { 0 } else { paced + 1 };
            gate.pass(paced.max(1)).await;
        }
        let now = left.min(piece.len());
        to.write_all(&piece[..now]).await?;
        left -= now;
        if left == 0 {
            break;
        }
    }
    to.flush().await
}

/// Ends the connection in a way that its other end takes for an error.
fn reset(reader: Reader<OwnedReadHalf>, to: OwnedWriteHalf) -> io::Result<()> {
    let (from, _) = reader.into_parts();
    let stream = from.reunite(to).map_err(io::Error::other)?;
    crate::gateway::wire::reset(&stream, Duration::ZERO)
}

async fn echo(reader: Reader<OwnedReadHalf>, mut to: OwnedWriteHalf) -> io::Result<()> {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    to.write_all(switch.as_bytes()).await?;
    let (mut from, ahead) = reader.into_parts();
    to.write_all(&ahead).await?;
    tokio::io::copy(&mut from, &mut to).await?;
    to.shutdown().await
}
