"""What is measured on features: the RBF-SVM's error, the γ-score, the theorem."""
