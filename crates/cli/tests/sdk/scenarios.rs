//! What happens to calls on the way: the same for every SDK.

use std::fmt::Write as _;

use crate::{
    adapter::{Adapter, Call, Raised, Said},
    gateway::Gateway,
    hop::Hop,
    origin::Origin,
    sdks::Sdk,
};

mod broken;
mod duplicates;

/// What a scenario finds: nothing, or what is wrong.
type Found = Result<(), String>;

/// A scenario and its name.
type Named = (&'static str, fn(&World) -> Found);

/// An SDK, three gateways with the settings it needs, and the service behind them.
pub(crate) struct World {
    sdk: Sdk,
    adapter: Adapter,
    origin: Origin,
    /// Nothing is known about the work.
    opaque: Gateway,
    /// The same, and duplicates wait for a second only.
    hasty: Gateway,
    /// The service deduplicates.
    keyed: Gateway,
}

const SCENARIOS: [Named; 13] = [
    ("plain", World::plain),
    ("request cut on the way", World::request_cut_on_the_way),
    ("answer lost on the way", World::answer_lost_on_the_way),
    ("cut while it runs", World::connection_cut_while_it_runs),
    ("no answer to the gateway, keyed", World::answer_lost_keyed),
    (
        "no answer to the gateway, opaque",
        World::answer_lost_opaque,
    ),
    ("bad gateway, keyed", World::bad_gateway_keyed),
    ("bad gateway, opaque", World::bad_gateway_opaque),
    ("duplicates side by side", World::duplicates_side_by_side),
    (
        "duplicate that waits too long",
        World::longer_than_a_duplicate_waits,
    ),
    ("key reused", World::key_reused),
    ("key too long", World::key_too_long),
    ("given up, then retried", World::given_up_then_retried),
];

/// Runs every scenario with an SDK, and fails with all that is wrong.
pub(crate) fn check(sdk: Sdk) {
    let world = World::new(sdk);
    let mut wrong = String::new();
    for (name, scenario) in SCENARIOS {
        if let Err(found) = scenario(&world) {
            // A held answer would be in the way of the next scenario.
            world.origin.let_go();
            writeln!(wrong, "- {name}: {found}").unwrap();
        }
    }
    let Sdk { name, language, .. } = sdk;
    assert!(wrong.is_empty(), "{name} ({language:?}):\n{wrong}");
}

// === impl World ===

impl World {
    fn new(sdk: Sdk) -> Self {
        let origin = Origin::start(sdk.place);
        let gateway = |settings: &str| {
            let defaults = format!("[defaults]\n{}\n{settings}\n", sdk.settings);
            Gateway::start(origin.addr(), &format!("{}{defaults}", sdk.identity))
        };
        let (opaque, hasty) = (gateway(""), gateway("wait = \"1s\""));
        let keyed = gateway("effect = \"keyed\"");
        Self {
            sdk,
            adapter: Adapter::start(sdk.language, sdk.name),
            origin,
            opaque,
            hasty,
            keyed,
        }
    }

    /// A call whose key the SDK makes, where it needs no retry of the program.
    fn stable(&self, hop: &Hop, key: &str, by_itself: bool) -> Call {
        match self.sdk.makes_keys && by_itself {
            true => own_key(hop),
            false => call(hop, key),
        }
    }

    /// Sees to it that a call whose first attempt failed ends well: by the SDK itself, or else by
    /// the program, with the same key.
    fn end_well(&self, said: Said, call: &Call, by_itself: bool) -> Found {
        match (said, by_itself) {
            (Said::Made(_), true) => Ok(()),
            (Said::Made(id), false) => Err(format!("made {id} without a retry of the program")),
            (Said::Raised(raised), true) => Err(format!("does not retry by itself: {raised}")),
            (Said::Raised(_), false) => self.say(call)?.made().map(drop),
        }
    }

    fn say(&self, call: &Call) -> Result<Said, String> {
        self.adapter.call(call).wait()
    }

    /// Checks that an error of this class tells what a refusal says.
    fn check_refusal(&self, raised: &Raised, class: &str, text: &str) -> Found {
        same(&raised.class.as_str(), &class, "the class of the error")?;
        self.check_told(raised, text)
    }

    /// Checks that an error is the SDK's own, and tells what a refusal says.
    fn check_told(&self, raised: &Raised, text: &str) -> Found {
        match raised.own && raised.message.contains(text) == self.sdk.tells {
            true => Ok(()),
            false => Err(format!("raised {raised}, without {text:?}")),
        }
    }

    fn arrived_once(&self) -> Found {
        same(&self.origin.arrivals().len(), &1, "arrivals at the origin")
    }
}

/// A call with a key of the program's.
fn call(hop: &Hop, key: &str) -> Call {
    Call {
        key: Some(key.into()),
        ..own_key(hop)
    }
}

/// A call with a key of the SDK's.
fn own_key(hop: &Hop) -> Call {
    Call {
        url: hop.url(),
        key: None,
        name: "name",
        retries: true,
        timeout: None,
    }
}

fn same<T: PartialEq + std::fmt::Debug>(is: &T, want: &T, what: &str) -> Found {
    match is == want {
        true => Ok(()),
        false => Err(format!("{what}: {is:?} instead of {want:?}")),
    }
}
