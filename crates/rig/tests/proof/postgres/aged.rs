//! A way around the PostgreSQL store to its table.

use std::time::Duration;

use async_trait::async_trait;
use onceward_rig::postgres::Scratch;
use tokio_postgres::{Client, NoTls};

use crate::aged::BackDoor;

/// A connection of its own, and the table with the records.
#[derive(Debug)]
pub(super) struct Table {
    client: Client,
    name: String,
}

// === impl Table ===

impl Table {
    pub(super) async fn of(scratch: &Scratch) -> Self {
        let connected = tokio_postgres::connect(scratch.server(), NoTls).await;
        let (client, connection) = connected.expect("the server answers");
        tokio::spawn(connection);
        Self {
            client,
            name: format!("{}.records", scratch.schema()),
        }
    }

    async fn run(&self, text: &str) {
        let done = self.client.batch_execute(text).await;
        done.expect("the server does it");
    }
}

#[async_trait]
impl BackDoor for Table {
    async fn age(&self, by: Duration) {
        let (name, micros) = (&self.name, by.as_micros());
        let text = format!(
            "UPDATE {name} SET written = written - {micros}, \
             due = CASE due WHEN 9223372036854775807 THEN due ELSE due - {micros} END"
        );
        self.run(&text).await;
    }

    async fn clear(&self) {
        let name = &self.name;
        let text = format!("DELETE FROM {name} WHERE tenant LIKE 'tenant-%'");
        self.run(&text).await;
    }
}
