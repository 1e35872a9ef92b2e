"""FedNCM against scikit-learn."""

import numpy as np
from making import INPUTS, LABELS, learned, make
from sklearn.neighbors import NearestNeighbors

from fcl_bench.methods.fedncm import FedNCM
from fcl_bench.partition import Dirichlet


def test_it_takes_the_nearest_mean_of_the_pooled_data():
    """Found here by scikit-learn: of all class means, the nearest by cosine."""
    method = make(FedNCM)
    done = learned(method, Dirichlet(7, alpha=0.1))
    predicted = method.classifier(done.states[-1])(INPUTS).argmax(dim=1).numpy()
    means = np.stack([INPUTS[label == LABELS].double().numpy().mean(axis=0) for label in done.stream.order])
    nearest = NearestNeighbors(n_neighbors=1, metric="cosine").fit(means)
    assert np.array_equal(predicted, nearest.kneighbors(INPUTS.numpy(), return_distance=False)[:, 0])
