"""`NonNegativeEmbedding` as a step of a scikit-learn pipeline, with settings chosen by grid search on digits.

python examples/pipeline_step.py [--steps 100]
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline

from nonneg.convert import NonNegativeEmbedding


def main() -> None:
    """Search by cross-validation on 1,400 digits and score the best pipeline on the other 397."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100, help="training steps of each fit")
    steps = parser.parse_args().steps
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=397, stratify=y, random_state=0)
    pipeline = Pipeline(
        [
            ("codes", NonNegativeEmbedding(max_iter=steps, random_state=0)),
            ("classify", LogisticRegression(C=10.0, max_iter=300)),
        ]
    )
    grid = {"codes__n_components": [64, 256], "codes__max_active": [4, 16]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X_train, y_train)
    results = search.cv_results_
    for settings, score in zip(results["params"], results["mean_test_score"], strict=True):
        features, active = settings["codes__n_components"], settings["codes__max_active"]
        print(f"{features:4} features, {active:2} active: {score:.1%} in cross-validation")
    codes = search.best_estimator_[:-1].transform(X_test)
    print(f"best pipeline on held-out digits: {search.score(X_test, y_test):.1%}")
    print(f"active features per digit: {np.diff(codes.indptr).mean():.1f} of {codes.shape[1]}")
    plain = LogisticRegression(C=10.0, max_iter=5000).fit(X_train / 16, y_train)
    print(f"logistic regression on the 64 pixels: {plain.score(X_test / 16, y_test):.1%}")


if __name__ == "__main__":
    main()
