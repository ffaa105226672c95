//! Which records a command is about: one that is named, or all that pass a filter.

use std::time::Duration;

use onceward::{Engine, Found, Key, Scope, Slot, record::StateName, store::Filter};

use onceward_gateway::units::{self, Invalid};

use crate::{exit::Failure, prefix::Prefix, store::is_used, trouble};

/// The name of a record.
#[derive(clap::Args, Debug, Default)]
#[group(skip)]
pub(crate) struct NameArgs {
    /// The record in this slot: its first 8 to 64 hex digits
    #[arg(long, value_name = "HEX", value_parser = Prefix::parse)]
    #[arg(conflicts_with_all = ["tenant", "operation", "key"])]
    slot: Option<Prefix>,

    /// Records of this tenant: the caller, exactly as the service names it
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// Records of this operation, exactly as the service names it
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,

    /// The record under this key, together with --tenant and --operation
    #[arg(long)]
    key: Option<String>,
}

/// The name of a record, or a filter.
#[derive(clap::Args, Debug, Default)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    name: NameArgs,

    /// Records in this state: claimed, completed, unknown, open or reserved
    #[arg(long, value_parser = state, conflicts_with_all = ["slot", "key"])]
    state: Option<StateName>,

    /// Records last written longer ago than this, such as 2h
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    #[arg(allow_hyphen_values = true, conflicts_with_all = ["slot", "key"])]
    older_than: Option<Duration>,
}

/// Which records are meant.
#[derive(Debug, PartialEq)]
pub(crate) enum Which {
    /// One, by its name.
    One(Name),
    /// All that pass.
    Passing(Sieve),
}

/// A name that at most one record has.
#[derive(Debug, PartialEq)]
pub(crate) enum Name {
    /// The digits of its slot.
    Slot(Prefix),
    /// What its caller named it by.
    Key(Slot),
}

/// A filter whose times are still relative. Without any part everything passes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sieve {
    filter: Filter,
    older_than: Option<Duration>,
}

/// Returns the state that `text` names.
fn state(text: &str) -> Result<StateName, Invalid> {
    StateName::parse(text).ok_or_else(|| {
        let all = StateName::ALL.into_iter();
        // Which is completed as well, and called so.
        let named = all.filter(|state| *state != StateName::Shedding);
        let names = named.map(StateName::as_str).collect::<Vec<_>>().join(", ");
        Invalid::new("is not a state", format!("give one of {names}"))
    })
}

// === impl NameArgs ===

impl NameArgs {
    /// Returns the name, or says what is missing of it.
    pub(crate) fn name(self) -> Result<Name, Failure> {
        match (self.slot, self.tenant, self.operation, self.key) {
            (Some(slot), ..) => Ok(Name::Slot(slot)),
            (None, Some(tenant), Some(operation), Some(key)) => {
                by_key(&tenant, &operation, &key).map(Name::Key)
            }
            _ => Err(Failure::new(
                "no record is named",
                "give --slot, or --tenant, --operation and --key together",
            )),
        }
    }
}

/// Returns the slot that a caller names by these three.
fn by_key(tenant: &str, operation: &str, key: &str) -> Result<Slot, Failure> {
    let scope = Scope::parse(tenant, operation).map_err(|invalid| {
        Failure::new(
            invalid.to_string(),
            "give --tenant and --operation as onceward list shows them",
        )
    })?;
    let key = Key::parse(key).map_err(|invalid| {
        Failure::new(
            invalid.to_string(),
            "give --key exactly as the caller sent it",
        )
    })?;
    Ok(Slot::new(scope, key))
}

// === impl Args ===

impl Args {
    /// Returns which records are meant, or says what is missing.
    pub(crate) fn which(self) -> Result<Which, Failure> {
        if self.name.slot.is_some() || self.name.key.is_some() {
            return self.name.name().map(Which::One);
        }
        Ok(Which::Passing(Sieve {
            filter: Filter {
                tenant: self.name.tenant,
                operation: self.name.operation,
                state: self.state,
                written_before: None,
            },
            older_than: self.older_than,
        }))
    }
}

// === impl Name ===

impl Name {
    /// Returns the record of that name, if there is one.
    pub(crate) async fn find(&self, engine: &Engine) -> Result<Option<Found>, Failure> {
        let slot = match self {
            Self::Slot(prefix) => return prefix.find(engine).await,
            Self::Key(slot) => slot,
        };
        if !is_used(engine).await? {
            return Ok(None);
        }
        let found = async { engine.inspect(engine.id_of(slot).await?).await };
        found.await.map_err(|error| trouble::of(&error))
    }

    /// Says that there is no such record, and why that may be.
    pub(crate) const fn absence(&self) -> &'static str {
        match self {
            Self::Slot(_) => "there is no record in that slot",
            Self::Key(_) => {
                "there is no record under that key; tenant, operation and key have to be \
                 exactly as the service has them"
            }
        }
    }
}

// === impl Sieve ===

impl Sieve {
    /// Whether it has no part, so that everything passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.filter == Filter::default() && self.older_than.is_none()
    }

    /// Returns the filter as of now, by the store's clock.
    pub(crate) async fn filter(self, engine: &Engine) -> Result<Filter, Failure> {
        let Some(age) = self.older_than else {
            return Ok(self.filter);
        };
        let look = engine.list(&Filter::default(), None, 1).await;
        let now = look.map_err(|error| trouble::of(&error))?.now;
        Ok(Filter {
            written_before: Some(now.before(age)),
            ..self.filter
        })
    }
}

#[cfg(test)]
mod tests;
