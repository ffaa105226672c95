//! The engine on its own: memory, embedded, growth, sweeping.

use std::time::Duration;

use crate::report::Report;

mod ceiling;
pub(crate) mod embedded;
mod growth;
mod memory;
mod sweeping;

/// Measure the engine on the memory and the embedded store
///
/// Prints claim + complete and replay on the memory store; claim + complete on the embedded
/// store beside raw fjall with the same batching; what growth does to throughput, start-up and
/// memory; and what sweeping costs those who claim meanwhile.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Take under two minutes: shorter rounds, and growth to 2 million records
    #[arg(long)]
    quick: bool,

    /// Measure only these parts
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Memory,
    Waiters,
    Embedded,
    Growth,
    Sweep,
}

// === impl Args ===

impl Args {
    pub(crate) fn run(self) -> Result<(), Box<dyn std::error::Error>> {
        let mut report = Report::default();
        let wanted = |part| self.only.is_empty() || self.only.contains(&part);
        if wanted(Part::Memory) {
            memory::run(&mut report, self.rounds());
        }
        if wanted(Part::Waiters) {
            memory::waiters(&mut report);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            if wanted(Part::Embedded) {
                embedded::run(&mut report, self.pairs(), self.span()).await?;
            }
            if wanted(Part::Growth) {
                growth::run(&mut report, self.millions(), self.span()).await?;
            }
            if wanted(Part::Sweep) {
                sweeping::run(&mut report, self.span()).await?;
            }
            Ok::<_, Box<dyn std::error::Error>>(())
        })?;
        report.print(self.json);
        Ok(())
    }

    /// How often a figure is taken; the median counts.
    fn rounds(&self) -> usize {
        if self.quick { 5 } else { 15 }
    }

    /// How often both sides of a comparison are measured in turn.
    fn pairs(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }

    /// How long one measurement lasts.
    fn span(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { 4 })
    }

    /// How many million records growth goes to.
    fn millions(&self) -> u64 {
        if self.quick { 2 } else { 20 }
    }
}
