//! One implementation for closures of the traits with which a program answers requests.

/// Implements a trait with one method for closures that return the method's future: both
/// `|request| async move { … }` and `async |request| { … }`.
macro_rules! impl_for_closures {
    ($trait:ident, $method:ident($request:ty) -> $answer:ty) => {
        impl<F, W> $trait for F
        where
            F: Fn($request) -> W + Send + Sync + 'static,
            W: Future<Output = $answer> + Send + 'static,
        {
            fn $method(&self, request: $request) -> Pin<Box<dyn Future<Output = $answer> + Send>> {
                Box::pin(self(request))
            }
        }
    };
}

pub(crate) use impl_for_closures;
