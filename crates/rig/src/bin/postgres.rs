//! Runs a private PostgreSQL server for tests, until stdin ends.
//!
//! `onceward-test-postgres` prints the server's URL on a line of its own, as
//! `ONCEWARD_TEST_POSTGRES` takes it. The server does not sync and is gone with its last byte when
//! this ends, however that comes about.

use std::io::{self, Read as _, Write as _};

use onceward_rig::postgres::Server;

fn main() -> io::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let server = Server::builder()
        .setting("fsync", "off")
        .setting("max_connections", "500")
        .start();
    let server = runtime.block_on(server);
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", server.url())?;
    stdout.flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
