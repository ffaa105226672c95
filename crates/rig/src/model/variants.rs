//! The variants: the protocol under each class of effect, and the mistakes it does not make.

use onceward::Effect;

use super::Kind;

/// A protocol, a service behind it and a world around it, and what is to be found out about them.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// A letter, and a few words.
    pub name: &'static str,
    /// The class that the work is declared to have.
    pub effect: Effect,
    /// What the service behind does about duplicates.
    pub service: Service,
    /// How it departs from the protocol.
    pub twist: Twist,
    /// Who settles what is unknown.
    pub operator: Operator,
    /// How often the key is used.
    pub generations: usize,
    /// Whether the store can forget what it acknowledged.
    pub forgets: bool,
    /// Whether work records a recovery point.
    pub points: bool,
    /// Whether claims are renewed.
    pub renews: bool,
    /// Whether there is a cache of answers before the store.
    pub caches: bool,
    /// Whether claims may be lost or late, and their replies lost.
    pub loses_claims: bool,
    /// Whether the replies to a holder's writes may be lost.
    pub loses_ends: bool,
    /// What is to be found, with the steps of the shortest way there: nothing, where it is safe.
    pub finds: &'static [(Kind, usize)],
    /// What cannot be promised here and so is not judged.
    pub excused: &'static [Kind],
}

/// What a service does about duplicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// It does whatever it is asked to.
    Plain,
    /// It recognises the key and repeats its first answer.
    Repeats,
    /// It recognises the key and answers something else.
    Recognises,
    /// It refuses fences older than the newest it has seen.
    Fences,
    /// There is none: the work commits with the record.
    Commits,
}

/// A departure from the protocol that ships.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Twist {
    /// None: `decide` and the moves, as they are.
    None,
    /// A lapsed claim is taken over, whatever the effect.
    Silent,
    /// The same, and whoever ends its work looks at nothing before it writes or deletes.
    Unfenced,
    /// An error deletes the record.
    Deletes,
    /// The holder looks whether it still holds the claim before it sends.
    Rechecks,
    /// Fences start at 1 for every claim of an empty slot.
    Restarts,
    /// The cache keeps absence, and a worker takes that for permission.
    CachesFree,
    /// What is cached outlives the record.
    CacheOutlives,
    /// Answers are cached before they are stored.
    CachesEarly,
    /// Payloads are compared after the state was looked at, so an answer comes first.
    StateFirst,
}

/// Who settles what is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// Nobody.
    Away,
    /// Somebody who finds out what happened, and opens a slot only once nothing can happen.
    Thorough,
    /// Somebody who asks the service, and opens the slot if the work was not done by then.
    Hasty,
}

const SHIPPED: Variant = Variant {
    name: "",
    effect: Effect::Opaque,
    service: Service::Plain,
    twist: Twist::None,
    operator: Operator::Away,
    generations: 1,
    forgets: false,
    points: false,
    renews: true,
    caches: false,
    loses_claims: true,
    loses_ends: true,
    finds: &[],
    excused: &[],
};

/// The same, with as little going wrong as it takes to find a mistake.
const CALM: Variant = Variant {
    renews: false,
    loses_claims: false,
    loses_ends: false,
    ..SHIPPED
};

/// Every variant. The safe ones find nothing.
pub const VARIANTS: &[Variant] = &[
    Variant {
        name: "A: silent take-over, ends that look at nothing",
        twist: Twist::Unfenced,
        finds: &[
            (Kind::Duplicate, 7),
            (Kind::LostAnswer, 8),
            (Kind::TwoAnswers, 9),
            (Kind::StaleWrite, 6),
            (Kind::Forgotten, 4),
        ],
        ..CALM
    },
    Variant {
        name: "B: silent take-over, fenced",
        twist: Twist::Silent,
        finds: &[(Kind::Duplicate, 7)],
        ..CALM
    },
    Variant {
        name: "C: unknown on lapse, but an error deletes the record",
        twist: Twist::Deletes,
        finds: &[(Kind::Duplicate, 7), (Kind::Forgotten, 4)],
        ..CALM
    },
    Variant {
        name: "D: opaque work",
        operator: Operator::Thorough,
        ..SHIPPED
    },
    Variant {
        name: "E: D, and an operator who opens what is not done yet",
        // A claim that lapsed can be settled before anybody has marked it unknown.
        operator: Operator::Hasty,
        finds: &[(Kind::Duplicate, 8), (Kind::Forgotten, 6)],
        ..CALM
    },
    Variant {
        name: "F: E, and holders look at their claim before they send",
        operator: Operator::Hasty,
        // It does not even rule out a state: whoever looks too early sends too late.
        twist: Twist::Rechecks,
        finds: &[(Kind::Duplicate, 8), (Kind::Forgotten, 6)],
        ..CALM
    },
    Variant {
        name: "G: probed work, a service that refuses older fences",
        effect: Effect::Probed,
        service: Service::Fences,
        operator: Operator::Thorough,
        ..SHIPPED
    },
    Variant {
        name: "H: silent take-over before a service that refuses older fences",
        effect: Effect::Probed,
        service: Service::Fences,
        twist: Twist::Silent,
        finds: &[(Kind::Duplicate, 7)],
        ..CALM
    },
    Variant {
        name: "I: keyed work, a service that repeats its first answer",
        effect: Effect::Keyed,
        service: Service::Repeats,
        ..SHIPPED
    },
    Variant {
        name: "J: D on a store that can forget",
        forgets: true,
        finds: &[
            (Kind::Duplicate, 7),
            (Kind::LostAnswer, 5),
            (Kind::TwoAnswers, 9),
            (Kind::Forgotten, 3),
        ],
        ..CALM
    },
    Variant {
        name: "K: keyed work on a store that can forget, a service that answers otherwise",
        effect: Effect::Keyed,
        service: Service::Recognises,
        forgets: true,
        finds: &[
            (Kind::LostAnswer, 5),
            (Kind::TwoAnswers, 9),
            (Kind::Forgotten, 3),
        ],
        ..CALM
    },
    Variant {
        name: "K': keyed work on a store that can forget, a service that repeats its answer",
        effect: Effect::Keyed,
        service: Service::Repeats,
        forgets: true,
        // The store forgets: what it held is gone, and that the service still knows saves us.
        excused: &[Kind::LostAnswer, Kind::Forgotten],
        loses_claims: false,
        ..SHIPPED
    },
    Variant {
        name: "L: D and sweeps, fences start anew",
        // Only answers are swept, so it takes one whose completion went unheard.
        twist: Twist::Restarts,
        generations: 2,
        loses_ends: true,
        finds: &[
            (Kind::Duplicate, 10),
            (Kind::LostAnswer, 13),
            (Kind::NoEffect, 8),
            (Kind::StaleWrite, 8),
            (Kind::Forgotten, 6),
        ],
        ..CALM
    },
    Variant {
        name: "M: D and sweeps, the key is used again",
        operator: Operator::Thorough,
        generations: 2,
        ..SHIPPED
    },
    Variant {
        name: "N: M behind a cache of stored answers",
        generations: 2,
        caches: true,
        ..SHIPPED
    },
    Variant {
        name: "O: D behind a cache that keeps absence, taken for permission",
        caches: true,
        twist: Twist::CachesFree,
        finds: &[(Kind::Duplicate, 7), (Kind::Forgotten, 3)],
        ..CALM
    },
    Variant {
        name: "P: opaque work past a recovery point, then keyed",
        service: Service::Repeats,
        points: true,
        ..SHIPPED
    },
    Variant {
        name: "Q: M behind a cache that outlives the record",
        generations: 2,
        caches: true,
        twist: Twist::CacheOutlives,
        finds: &[
            (Kind::LostAnswer, 8),
            (Kind::TwoAnswers, 11),
            (Kind::NoEffect, 8),
        ],
        ..CALM
    },
    Variant {
        name: "R: D behind a cache that is filled before the record",
        caches: true,
        twist: Twist::CachesEarly,
        finds: &[(Kind::LostAnswer, 5)],
        ..CALM
    },
    Variant {
        name: "S: keyed work, the key is used again",
        effect: Effect::Keyed,
        service: Service::Repeats,
        generations: 2,
        ..SHIPPED
    },
    Variant {
        name: "T: probed work, the key is used again",
        effect: Effect::Probed,
        service: Service::Fences,
        generations: 2,
        ..SHIPPED
    },
    Variant {
        name: "U: transactional work, the key is used again",
        effect: Effect::Transactional,
        service: Service::Commits,
        operator: Operator::Thorough,
        generations: 2,
        ..SHIPPED
    },
    Variant {
        name: "V: D, and payloads are compared after the state",
        twist: Twist::StateFirst,
        finds: &[(Kind::Leak, 4)],
        ..CALM
    },
];

// === impl Variant ===

impl Variant {
    /// Whether the promise is to hold.
    pub fn is_safe(&self) -> bool {
        self.finds.is_empty()
    }

    /// The letter.
    pub fn letter(&self) -> &'static str {
        self.name.split(':').next().unwrap_or(self.name)
    }

    pub(super) fn is_fencing(&self) -> bool {
        self.service == Service::Fences
    }

    pub(super) fn restarts(&self) -> bool {
        self.twist == Twist::Restarts
    }

    pub(super) fn deletes(&self) -> bool {
        matches!(self.twist, Twist::Deletes | Twist::Unfenced)
    }

    /// The kinds that count, as bits.
    pub(super) fn judged(&self) -> u8 {
        !Kind::bits(self.excused)
    }
}
