"""Cross-validation against scikit-learn."""

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from nonneg.evaluate import cross_validation
from nonneg.features import Features


def test_the_svm_is_scikit_learns_with_the_best_validated_strength():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 5)).astype(np.float32)
    y = (x[:, :2].sum(1) + 0.5 * rng.normal(size=120) > 0).astype(int)
    expected = []
    for known, test in StratifiedKFold(10, shuffle=True, random_state=0).split(x, y):
        kept, chosen_on = train_test_split(known, test_size=11, stratify=y[known], random_state=0)
        scale = StandardScaler().fit(x[kept].astype(float))
        models = {C: SVC(C=C).fit(scale.transform(x[kept]), y[kept]) for C in 10.0 ** np.arange(-3, 4)}
        best = max(models, key=lambda C: models[C].score(scale.transform(x[chosen_on]), y[chosen_on]))
        scale = StandardScaler().fit(x[known].astype(float))
        expected.append(SVC(C=best).fit(scale.transform(x[known]), y[known]).score(scale.transform(x[test]), y[test]))
    np.testing.assert_allclose(cross_validation(Features(x, labels=y)).svm, expected)
