//! Forwarding: what a store in front of another leaves to it.

/// Writes the methods of [`Store`](crate::Store) that a wrapper leaves to the store behind it,
/// which is its field `inner`. Names the methods; the others are the wrapper's own.
///
/// Stands within an `impl Store`, with or without `#[async_trait]` on it.
///
/// ```
/// use std::sync::Arc;
///
/// use onceward::store::{Error, Insert, Reply, Swap};
/// use onceward::{Fence, Record, SlotId, Store, Timestamp, forward};
///
/// /// Refuses to remove anything.
/// #[derive(Debug)]
/// struct Keeping {
///     inner: Arc<dyn Store>,
/// }
///
/// #[async_trait::async_trait]
/// impl Store for Keeping {
///     async fn remove(
///         &self,
///         _slot: SlotId,
///         _seen: Fence,
///         _not_after: Timestamp,
///     ) -> Result<Reply<Swap>, Error> {
///         Err(Error::unavailable(self.kind(), "nothing is ever removed"))
///     }
///
///     forward!(insert, replace, get, recall, forget, list, sweep, watch, durability, kind);
/// }
/// ```
#[macro_export]
macro_rules! forward {
    ($($method:ident),+ $(,)?) => { $($crate::__forward!($method);)+ };
}

/// One method of [`forward!`], as `#[async_trait]` would write it, less a box of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward {
    (insert) => {
        fn insert<'a, 'b, 'async_trait>(
            &'a self,
            slot: $crate::SlotId,
            record: &'b $crate::Record,
            not_after: $crate::Timestamp,
        ) -> $crate::store::Pending<'async_trait, $crate::store::Insert>
        where
            'a: 'async_trait,
            'b: 'async_trait,
            Self: 'async_trait,
        {
            self.inner.insert(slot, record, not_after)
        }
    };
    (replace) => {
        fn replace<'a, 'b, 'async_trait>(
            &'a self,
            slot: $crate::SlotId,
            seen: $crate::Fence,
            record: &'b $crate::Record,
            not_after: $crate::Timestamp,
        ) -> $crate::store::Pending<'async_trait, $crate::store::Swap>
        where
            'a: 'async_trait,
            'b: 'async_trait,
            Self: 'async_trait,
        {
            self.inner.replace(slot, seen, record, not_after)
        }
    };
    (remove) => {
        fn remove<'a, 'async_trait>(
            &'a self,
            slot: $crate::SlotId,
            seen: $crate::Fence,
            not_after: $crate::Timestamp,
        ) -> $crate::store::Pending<'async_trait, $crate::store::Swap>
        where
            'a: 'async_trait,
            Self: 'async_trait,
        {
            self.inner.remove(slot, seen, not_after)
        }
    };
    (get) => {
        fn get<'a, 'async_trait>(
            &'a self,
            slot: $crate::SlotId,
        ) -> $crate::store::Pending<
            'async_trait,
            ::std::option::Option<::std::sync::Arc<$crate::Record>>,
        >
        where
            'a: 'async_trait,
            Self: 'async_trait,
        {
            self.inner.get(slot)
        }
    };
    (recall) => {
        fn recall(
            &self,
            slot: $crate::SlotId,
        ) -> ::std::option::Option<$crate::store::Reply<::std::sync::Arc<$crate::Record>>> {
            self.inner.recall(slot)
        }
    };
    (forget) => {
        fn forget<'a, 'async_trait>(
            &'a self,
            slot: $crate::SlotId,
            before: $crate::Fence,
        ) -> $crate::store::Told<'async_trait>
        where
            'a: 'async_trait,
            Self: 'async_trait,
        {
            self.inner.forget(slot, before)
        }
    };
    (list) => {
        fn list<'a, 'b, 'async_trait>(
            &'a self,
            filter: &'b $crate::store::Filter,
            after: ::std::option::Option<$crate::SlotId>,
            limit: usize,
        ) -> $crate::store::Pending<'async_trait, $crate::store::Page>
        where
            'a: 'async_trait,
            'b: 'async_trait,
            Self: 'async_trait,
        {
            self.inner.list(filter, after, limit)
        }
    };
    (sweep) => {
        fn sweep<'a, 'async_trait>(
            &'a self,
            before: $crate::Timestamp,
            limit: usize,
        ) -> $crate::store::Pending<'async_trait, $crate::store::Swept>
        where
            'a: 'async_trait,
            Self: 'async_trait,
        {
            self.inner.sweep(before, limit)
        }
    };
    (watch) => {
        fn watch(&self) -> $crate::store::Hints {
            self.inner.watch()
        }
    };
    (durability) => {
        fn durability(&self) -> $crate::Durability {
            self.inner.durability()
        }
    };
    (kind) => {
        fn kind(&self) -> &'static str {
            self.inner.kind()
        }
    };
}
