//! Compiling functions for several instruction sets, and choosing the best one at run time.
//!
//! The crate `multiversion` withholds AVX-512 from Skylake-X and Cascade Lake unless a program is built with a flag that a
//! library cannot set. These kernels are faster with it there too.

/// Compiles a function for several instruction sets and calls the best one that the CPU has. What the function inlines is
/// compiled for that set too.
///
/// With `where S: Simd` or `where S: IntegerSimd` after the signature, `S` is the type of the instruction set. Without,
/// plain loops are left to the compiler. Parameters are names, not patterns.
#[doc(hidden)]
#[macro_export]
macro_rules! simd {
    // A function of instruction set `$S`: arms for its generic parameters, then for its bound.
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$(const $generic:ident: $type:ty),+>$($rest:tt)+) => {
        $crate::blocks::simd! {
            @fn [$(#[$meta])* $vis] $name [<$(const $generic: $type),+>] [::<$($generic),+>] $($rest)+
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$($generic:ident: $bound:path),+>$($rest:tt)+) => {
        $crate::blocks::simd! {
            @fn [$(#[$meta])* $vis] $name [<$($generic: $bound),+>] [::<$($generic),+>] $($rest)+
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident $($rest:tt)+) => {
        $crate::blocks::simd! { @fn [$(#[$meta])* $vis] $name [] [] $($rest)+ }
    };
    (@fn $head:tt $name:ident $generics:tt $use:tt ($($arg:ident: $type:ty),* $(,)?) $(-> $output:ty)?
        where $S:ident: Simd $body:block) => {
        $crate::blocks::simd! {
            @sets $head $name $generics $use ($($arg: $type),*) ($($arg),*) [$(-> $output)?] $S $body
            ["x86_64" is_x86_feature_detected Avx512 ["avx512f" "avx512bw" "avx512dq" "avx512vl" "avx2" "fma" "f16c"]]
            ["x86_64" is_x86_feature_detected Avx2 ["avx2" "fma" "f16c"]]
        }
    };
    (@fn $head:tt $name:ident $generics:tt $use:tt ($($arg:ident: $type:ty),* $(,)?) $(-> $output:ty)?
        where $S:ident: IntegerSimd $body:block) => {
        $crate::blocks::simd! {
            @sets $head $name $generics $use ($($arg: $type),*) ($($arg),*) [$(-> $output)?] $S $body
            ["x86_64" is_x86_feature_detected Avx512Vnni
                ["avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx2" "fma" "f16c"]]
            ["x86_64" is_x86_feature_detected AvxVnni ["avxvnni" "avx2" "fma" "f16c"]]
            ["x86_64" is_x86_feature_detected Avx2 ["avx2" "fma" "f16c"]]
            ["aarch64" is_aarch64_feature_detected NeonI8mm ["neon" "dotprod" "i8mm"]]
            ["aarch64" is_aarch64_feature_detected NeonDot ["neon" "dotprod"]]
        }
    };
    (@fn $head:tt $name:ident $generics:tt $use:tt ($($arg:ident: $type:ty),* $(,)?) $(-> $output:ty)?
        $body:block) => {
        $crate::blocks::simd! {
            @fn $head $name $generics $use ($($arg: $type),*) $(-> $output)? where AnySet: Simd $body
        }
    };
    (@sets [$($head:tt)*] $name:ident [$($generics:tt)*] $use:tt ($($params:tt)*) $args:tt [$($output:tt)*]
        $S:ident $body:block $($set:tt)*) => {
        $($head)* fn $name $($generics)* ($($params)*) $($output)* {
            $crate::blocks::simd! {
                @versions [$($generics)*] $use ($($params)*) $args [$($output)*] $S $body $($set)*
            }
            // Not every body names the set.
            #[allow(dead_code)]
            type $S = $crate::blocks::Baseline;
            $body
        }
    };
    // A version for each set, which is returned from if the CPU has the set.
    (@versions $generics:tt $use:tt $params:tt $args:tt $output:tt $S:ident $body:block) => {};
    (@versions $generics:tt $use:tt $params:tt $args:tt $output:tt $S:ident $body:block
        [$arch:tt $($set:tt)*] $($more:tt)*) => {
        #[cfg(target_arch = $arch)]
        $crate::blocks::simd! { @version $generics $use $params $args $output $S $body $($set)* }
        $crate::blocks::simd! { @versions $generics $use $params $args $output $S $body $($more)* }
    };
    (@version [$($generics:tt)*] [$($use:tt)*] $params:tt $args:tt [$($output:tt)*] $S:ident $body:block
        $detected:ident $set:ident [$($feature:tt)+]) => {
        if $(std::arch::$detected!($feature))&&+ {
            $(#[target_feature(enable = $feature)])+
            fn version $($generics)* $params $($output)* {
                #[allow(dead_code)]
                type $S = $crate::blocks::$set;
                $body
            }
            // SAFETY: the CPU has these features.
            return unsafe { version $($use)* $args };
        }
    };
}
#[doc(hidden)]
pub use simd;

#[cfg(test)]
mod tests {
    use std::any::type_name;

    use crate::blocks::*;

    simd! {
        fn chosen() -> &'static str where S: Simd {
            type_name::<S>()
        }
    }

    simd! {
        fn chosen_for_integers<const N: usize>(numbers: [u8; N]) -> (&'static str, usize) where S: IntegerSimd {
            (type_name::<S>(), numbers.len())
        }
    }

    /// The best set of this CPU for floats, and for integers.
    #[cfg(target_arch = "x86_64")]
    fn best() -> [&'static str; 2] {
        let has_avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        // As Skylake-X has them, without what later processors added.
        let has_avx512 =
            is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
        let floats = match (has_avx512, has_avx2) {
            (true, _) => type_name::<Avx512>(),
            (false, true) => type_name::<Avx2>(),
            (false, false) => type_name::<Baseline>(),
        };
        let integers = match (has_avx512, has_avx2) {
            (true, _) if is_x86_feature_detected!("avx512vnni") => type_name::<Avx512Vnni>(),
            (_, true) if is_x86_feature_detected!("avxvnni") => type_name::<AvxVnni>(),
            (_, true) => type_name::<Avx2>(),
            (_, false) => type_name::<Baseline>(),
        };
        [floats, integers]
    }

    /// The best set of this CPU for floats, and for integers.
    #[cfg(target_arch = "aarch64")]
    fn best() -> [&'static str; 2] {
        use std::arch::is_aarch64_feature_detected;
        let has_dot = is_aarch64_feature_detected!("dotprod");
        let integers = match (has_dot, is_aarch64_feature_detected!("i8mm")) {
            (true, true) => type_name::<NeonI8mm>(),
            (true, false) => type_name::<NeonDot>(),
            (false, _) => type_name::<Baseline>(),
        };
        [type_name::<Baseline>(), integers]
    }

    /// The best set of this CPU for floats, and for integers.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn best() -> [&'static str; 2] {
        [type_name::<Baseline>(); 2]
    }

    #[test]
    fn the_best_instruction_set_of_the_cpu_is_chosen() {
        let (integers, len) = chosen_for_integers([0; 3]);
        assert_eq!([chosen(), integers], best());
        assert_eq!(len, 3);
    }
}
