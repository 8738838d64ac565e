"""Measures of features: the error of an RBF-SVM, the γ-score, the paper's mathematics in numbers."""
