//! A plain evaluator of tensor ops in double precision, which the graph tests compare with.

use wisp_tests::kernels::noise;

/// A tensor of the reference evaluator. Elements of any type are kept as `f64`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub dims: Vec<usize>,
    pub values: Vec<f64>,
}

/// Returns every index of some dimensions, in row-major order.
pub fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let count: usize = dims.iter().product();
    let index_of = |mut element: usize| {
        let mut index = vec![0; dims.len()];
        for (i, size) in index.iter_mut().zip(dims).rev() {
            *i = element % size;
            element /= size;
        }
        index
    };
    (0..count).map(index_of).collect()
}

impl Tensor {
    pub fn new(dims: &[usize], values: Vec<f64>) -> Tensor {
        assert_eq!(dims.iter().product::<usize>(), values.len());
        Tensor {
            dims: dims.to_vec(),
            values,
        }
    }

    pub fn noise(seed: u32, dims: &[usize]) -> Tensor {
        let values = noise(seed, dims.iter().product());
        Tensor::new(dims, values.into_iter().map(f64::from).collect())
    }

    pub fn make(dims: &[usize], value: impl Fn(&[usize]) -> f64) -> Tensor {
        Tensor::new(
            dims,
            indices(dims).iter().map(|index| value(index)).collect(),
        )
    }

    /// Returns the element at an index, broadcasting: leading dimensions of the index that the tensor lacks are
    /// ignored, and dimensions of size 1 repeat.
    pub fn at(&self, index: &[usize]) -> f64 {
        let index = &index[index.len() - self.dims.len()..];
        let steps = index.iter().zip(&self.dims);
        self.values[steps.fold(0, |at, (i, size)| at * size + i.min(&(size - 1)))]
    }

    /// Returns the shape that both tensors broadcast to.
    fn common(&self, other: &Tensor) -> Vec<usize> {
        let rank = self.dims.len().max(other.dims.len());
        let size = |of: &Tensor, i: usize| {
            (i + of.dims.len())
                .checked_sub(rank)
                .map_or(1, |i| of.dims[i])
        };
        (0..rank)
            .map(|i| size(self, i).max(size(other, i)))
            .collect()
    }

    /// Applies a function to each pair of elements, broadcasting.
    pub fn binary(&self, other: &Tensor, f: impl Fn(f64, f64) -> f64) -> Tensor {
        Tensor::make(&self.common(other), |index| {
            f(self.at(index), other.at(index))
        })
    }

    pub fn map(&self, f: impl Fn(f64) -> f64) -> Tensor {
        Tensor::new(&self.dims, self.values.iter().map(|x| f(*x)).collect())
    }

    pub fn permute(&self, axes: &[usize]) -> Tensor {
        let dims: Vec<usize> = axes.iter().map(|axis| self.dims[*axis]).collect();
        Tensor::make(&dims, |index| {
            let mut own = vec![0; index.len()];
            for (at, axis) in index.iter().zip(axes) {
                own[*axis] = *at;
            }
            self.at(&own)
        })
    }

    /// Reduces the elements along a dimension by a function.
    pub fn reduce(&self, axis: usize, f: impl Fn(&mut dyn Iterator<Item = f64>) -> f64) -> Tensor {
        let mut dims = self.dims.clone();
        let size = dims.remove(axis);
        Tensor::make(&dims, |index| {
            let mut own = index.to_vec();
            own.insert(axis, 0);
            f(&mut (0..size).map(|i| {
                own[axis] = i;
                self.at(&own)
            }))
        })
    }

    pub fn matmul(&self, other: &Tensor) -> Tensor {
        let (a, b) = (self.dims.len() - 2, other.dims.len() - 2);
        let (m, k, n) = (self.dims[a], self.dims[a + 1], other.dims[b + 1]);
        let outer = Tensor::new(&self.dims[..a], vec![0.0; self.dims[..a].iter().product()]);
        let other_outer = vec![0.0; other.dims[..b].iter().product()];
        let mut dims = outer.common(&Tensor::new(&other.dims[..b], other_outer));
        dims.extend([m, n]);
        Tensor::make(&dims, |index| {
            let (batch, last) = index.split_at(index.len() - 2);
            let term = |i| {
                self.at(&[batch, &[last[0], i]].concat())
                    * other.at(&[batch, &[i, last[1]]].concat())
            };
            (0..k).map(term).sum()
        })
    }

    pub fn softmax(&self, axis: usize) -> Tensor {
        let max = self.reduce(axis, |x| x.fold(f64::MIN, f64::max));
        let keep_axis = |tensor: Tensor| {
            let mut dims = tensor.dims.clone();
            dims.insert(axis, 1);
            Tensor::new(&dims, tensor.values)
        };
        let exp = self.binary(&keep_axis(max), |x, y| (x - y).exp());
        let total = keep_axis(exp.reduce(axis, |x| x.sum()));
        exp.binary(&total, |x, y| x / y)
    }
}
